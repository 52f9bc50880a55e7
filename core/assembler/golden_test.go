package assembler

import (
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/internal/golden"
	"github.com/stretchr/testify/require"
)

const recordings = "../pgoutput/testdata"

// lawful are the protocol 1 sessions that this side can ask for: not in binary form.
func lawful(t *testing.T, visit func(t *testing.T, session golden.Session)) {
	t.Helper()
	all, err := golden.ReadDir(recordings)
	require.NoError(t, err)
	visited := 0
	for _, r := range all {
		for i, s := range r.Sessions {
			if s.Protocol != 1 || s.Binary() {
				continue
			}
			visited++
			t.Run(r.Name(i), func(t *testing.T) { visit(t, s) })
		}
	}
	require.Greater(t, visited, 150)
}

func TestRecordedSessionsAssemble(t *testing.T) {
	lawful(t, func(t *testing.T, s golden.Session) {
		d, a := pgoutput.NewDecoder(pgoutput.Options{}), New(Options{})
		var m pgoutput.Message
		for _, frame := range s.Messages() {
			require.NoError(t, d.Decode(frame, &m))
			step, err := a.Push(&m)
			require.NoError(t, err)
			if step == StepCommit {
				tx, mark := a.Take()
				require.Greater(t, tx.EndLSN, tx.CommitLSN)
				size := 0
				for i := range tx.Changes {
					size += tx.Changes[i].EncodedMax()
				}
				require.Equal(t, size, tx.Size)
				a.Release(mark)
			}
			_ = core.LSN(0)
		}
	})
}
