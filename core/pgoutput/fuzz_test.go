package pgoutput

import (
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/stretchr/testify/require"
)

// No input panics, errors are halts, and what is accepted says again, byte for byte,
// what was sent: nothing was overlooked.
func FuzzDecode(f *testing.F) {
	for _, l := range layouts {
		f.Add([]byte(l.frame))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var m Message
		d := NewDecoder(Options{})
		if err := d.Decode(frame, &m); err != nil {
			halt, ok := core.AsHalt(err)
			require.True(t, ok)
			require.Contains(t, []core.HaltCode{core.HaltMalformedStream, core.HaltUnsupportedMessage}, halt.Code)
			return
		}
		if m.Kind == KindStreamAbort {
			require.EqualValues(t, 1, d.Ignored())
			return
		}
		require.Equal(t, frame, encode(&m))
		require.LessOrEqual(t, m.New.Columns, core.ColumnsMax)
	})
}
