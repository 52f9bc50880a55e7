package selftest_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance/selftest"
)

// TestFullMatrix runs every case against every mutant, and writes the rows to the file
// that REPLICANT_MATRIX names, as JSON lines. It takes minutes.
func TestFullMatrix(t *testing.T) {
	file := os.Getenv("REPLICANT_MATRIX")
	if file == "" {
		t.Skip("REPLICANT_MATRIX names no file")
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer out.Close()
	leave := strings.Fields(os.Getenv("REPLICANT_MATRIX_LEAVE"))
	only := strings.Fields(os.Getenv("REPLICANT_MATRIX_ONLY"))
	m, err := selftest.Run(t.Context(), selftest.Options{Full: true, Leave: leave, Only: only, Seed: 1, Parallel: 3, Observe: func(r selftest.Row) {
		require.NoError(t, json.NewEncoder(out).Encode(r))
	}})
	require.NoError(t, err)
	t.Log("\n" + m.Text())
	require.True(t, m.OK())
}
