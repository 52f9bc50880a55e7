package assembler

import (
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/internal/golden"
	"github.com/stretchr/testify/require"
)

// frames splits fuzz bytes into messages: one length byte, then so many bytes.
func frames(data []byte) (all [][]byte) {
	for len(data) > 0 {
		n := min(int(data[0]), len(data)-1)
		all = append(all, data[1:1+n])
		data = data[1+n:]
	}
	return all
}

// Whatever sequence of messages comes, nothing panics, errors are halts that stay, and
// a transaction that is handed out is framed, described and well formed.
func FuzzPush(f *testing.F) {
	for _, story := range []string{"basic_dml", "messages", "truncate_many", "origin", "identity", "names", "stream_live", "ddl_stream_live", "ddl_two_streams", "message_stream", "stream_v4"} {
		r, err := golden.Read(recordings + "/" + story + ".pg18.pgout")
		require.NoError(f, err)
		for _, s := range r.Sessions {
			var data []byte
			for _, m := range s.Messages() {
				if len(m) < 256 {
					data = append(append(data, byte(len(m))), m...)
				}
			}
			f.Add(data, uint8(0))
			f.Add(data, uint8(2))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, cutEvery uint8) {
		d, spill := pgoutput.NewDecoder(pgoutput.Options{Streaming: true}), &memorySpill{}
		a := New(Options{Slab: 64, Resident: 100, Spill: spill})
		defer func() {
			a.Close()
			require.Zero(t, spill.open)
		}()
		var m pgoutput.Message
		watch := watcher{}
		for _, frame := range frames(data) {
			if d.Decode(frame, &m) != nil {
				return
			}
			step, err := a.Push(&m)
			for {
				if err != nil {
					_, ok := core.AsHalt(err)
					require.True(t, ok)
					_, again := a.Push(&m)
					require.Same(t, err, again)
					return
				}
				watch.step(t, a, &m, step, int(cutEvery))
				_, resident := a.InProgress()
				require.LessOrEqual(t, resident, 100)
				if !a.Replaying() {
					break
				}
				step, err = a.Replay()
			}
		}
	})
}

// watcher checks framing from outside: what it is told by steps must fit what it takes.
type watcher struct {
	open    bool
	commit  core.LSN
	end     core.LSN
	changes uint64
}

func (w *watcher) step(t *testing.T, a *Assembler, m *pgoutput.Message, step Step, cutEvery int) {
	switch step {
	case StepBegin:
		require.False(t, w.open)
		w.open, w.commit, w.changes = true, m.LSN, 0
	case StepChange:
		require.True(t, w.open)
		w.changes++
		if cutEvery > 0 && w.changes%uint64(cutEvery) == 0 {
			changes, first, mark := a.TakeChanges()
			require.Equal(t, w.changes, first+uint64(len(changes)))
			wellFormed(t, changes)
			a.Release(mark)
		}
	case StepCommit:
		require.True(t, w.open)
		tx, mark := a.Take()
		require.Equal(t, w.commit, tx.CommitLSN)
		require.Greater(t, tx.EndLSN, tx.CommitLSN)
		require.Greater(t, tx.EndLSN, w.end)
		require.Equal(t, w.changes, a.Count())
		wellFormed(t, tx.Changes)
		w.open, w.end = false, tx.EndLSN
		a.Release(mark)
	case StepMessage:
		require.False(t, w.open)
		require.Greater(t, a.Message().LSN, w.end)
		w.end = a.Message().LSN
	case StepSchemaChange:
		require.NotSame(t, a.SchemaChange().Before, a.SchemaChange().After)
	}
	_, open := a.Open()
	require.Equal(t, w.open, open)
}

func wellFormed(t *testing.T, changes []core.Change) {
	for i := range changes {
		c := &changes[i]
		row := c.Op == core.OpInsert || c.Op == core.OpUpdate || c.Op == core.OpDelete
		require.Equal(t, row, c.Relation != nil)
		require.Equal(t, c.Op == core.OpTruncate, c.Truncate != nil)
		require.Equal(t, c.Op == core.OpMessage, c.Message != nil)
		require.Equal(t, c.OldKind != core.OldNone, !c.Old.IsZero())
		require.Equal(t, c.Op == core.OpInsert || c.Op == core.OpUpdate, !c.New.IsZero())
		for _, image := range []core.Tuple{c.Old, c.New} {
			if image.IsZero() {
				continue
			}
			require.Equal(t, len(c.Relation.Columns), image.Len())
			_, err := core.ParseTuple(image.Packed())
			require.NoError(t, err)
		}
		require.False(t, !c.Old.IsZero() && c.Old.Has(core.ValueUnchanged))
		require.False(t, c.Op == core.OpInsert && c.New.Has(core.ValueUnchanged))
		require.False(t, c.OldKind == core.OldKey && c.Old.Has(core.ValueNull))
	}
}
