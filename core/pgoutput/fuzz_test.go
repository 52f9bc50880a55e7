package pgoutput

import (
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/stretchr/testify/require"
)

// No input panics, errors are halts, and what is accepted says again, byte for byte,
// what was sent: nothing was overlooked. Each frame is read without streaming, with it, and
// inside a block.
func FuzzDecode(f *testing.F) {
	for _, l := range layouts {
		f.Add([]byte(l.frame))
	}
	for _, l := range streamLayouts {
		f.Add([]byte(l.frame))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		for _, d := range []*Decoder{NewDecoder(Options{}), NewDecoder(Options{Streaming: true}), inBlock(t)} {
			var m Message
			if err := d.Decode(frame, &m); err != nil {
				halt, ok := core.AsHalt(err)
				require.True(t, ok)
				require.Contains(t, []core.HaltCode{core.HaltMalformedStream, core.HaltUnsupportedMessage}, halt.Code)
				continue
			}
			if m.Kind == KindStreamAbort && !d.streaming {
				require.EqualValues(t, 1, d.Ignored())
				continue
			}
			require.Equal(t, frame, encode(&m))
			require.LessOrEqual(t, m.New.Columns, core.ColumnsMax)
		}
	})
}
