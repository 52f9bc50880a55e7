package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommandProbeSaysWhatItExpected: an author reads the error, not this code.
func TestCommandProbeSaysWhatItExpected(t *testing.T) {
	for printed, want := range map[string]string{
		`{"missing": true}`: "no log",
		`{}`:                `log: line 1 is neither {"entry": {...}} nor {"missing": true}`,
		`{"lsn": 1}`:        `log: line 1 is neither`,
		`{"entry": [1]}`:    "log: line 1 is no entry",
		`entry`:             "log:",
	} {
		// The words of the call come behind the script, and are no business of its.
		probe, err := NewCommandProbe("", "sh", "-c", `printf '%s\n' "$0"`, printed)
		require.NoError(t, err)
		_, err = probe.ReadLog(t.Context(), "s")
		require.ErrorContains(t, err, want, printed)
	}
}
