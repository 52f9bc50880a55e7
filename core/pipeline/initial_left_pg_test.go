package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// partly begins an initial copy and cuts it short behind its second unit of rows.
func partly(t *testing.T, o pipeline.Options, s *sinktest.Snapshots) {
	t.Helper()
	units, reached := 0, make(chan struct{})
	s.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if u.Relation == nil {
			return nil
		}
		if units++; units == 3 {
			close(reached)
		}
		if units >= 3 {
			return &core.SinkError{Class: core.ClassAway, Call: "HandleSnapshot", Code: "away"}
		}
		return nil
	}
	r := start(t, o)
	select {
	case <-reached:
	case err := <-r.done:
		r.done <- err
		require.NoError(t, err, "the copy did not come so far")
	}
	r.cancel()
	require.ErrorIs(t, r.wait(t), pipeline.ErrCopyInterrupted)
	s.BeforeSnapshot = nil
}

// others are all starts that would stream past the copy.
var others = map[string]func(*pipeline.Options){
	"plain":       func(o *pipeline.Options) { o.Snapshot = checkpoint.SnapshotNone },
	"forward":     func(o *pipeline.Options) { o.Snapshot, o.GoForwardOnly = checkpoint.SnapshotNone, true },
	"adopt":       func(o *pipeline.Options) { o.Snapshot, o.AdoptSlot = checkpoint.SnapshotNone, true },
	"incremental": func(o *pipeline.Options) { o.Snapshot = checkpoint.SnapshotIncremental },
}

// TestInitialCopyIsNotLeftBehind: a copy is cut short. Whoever starts otherwise halts, with the
// slot and without it, and is told what to type; the sink never streams with a part of the rows.
func TestInitialCopyIsNotLeftBehind(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			db := filled(t, 17)
			db.Exec(t, "drop publication p", "create publication p for table a, c")
			sink := sinktest.NewLib()
			sink.Caps.Kind, sink.Caps.Limits = core.StateMirror, smallUnits
			o := initial(db, sink)
			o.Store = open(t, db)
			notLeftBehind(t, db, o, &sink.Snapshots, sink)
		})
	}
	for name, kind := range map[string]core.SinkKind{"sink": core.StateMirror, "log": core.AppendLog} {
		t.Run(name, func(t *testing.T) {
			db := filled(t, 17)
			sink := sinktest.NewMemory()
			sink.Caps.Kind, sink.Caps.Limits = kind, smallUnits
			notLeftBehind(t, db, initial(db, sink), &sink.Snapshots, sink)
		})
	}
}

func notLeftBehind(t *testing.T, db *pgtest.DB, o pipeline.Options, s *sinktest.Snapshots, sink interface {
	mirror
	Transactions() []sinktest.Transaction
}) {
	t.Helper()
	partly(t, o, s)
	require.NotEmpty(t, append(held(sink, "a"), held(sink, "c")...), "the sink has a part")
	for _, name := range []string{"there", "dropped"} {
		if name == "dropped" {
			db.Exec(t, "select pg_drop_replication_slot('"+o.Source.Slot+"')")
		}
		for other, change := range others {
			next := o
			change(&next)
			halt := halted(t, start(t, next), core.HaltSnapshotIncomplete)
			require.Contains(t, halt.Detail, "--snapshot=initial", other)
			if name == "there" {
				require.Contains(t, halt.Detail, "--snapshot-redo", other)
				require.Contains(t, halt.Detail, "SELECT pg_drop_replication_slot('"+o.Source.Slot+"')", other)
			}
		}
	}
	require.Empty(t, sink.Transactions(), "before anything is delivered")
	partly(t, o, s)
	halted(t, start(t, o), core.HaltSnapshotIncomplete)
	o.SnapshotRedo = true
	r := start(t, o)
	r.streaming(t)
	alike(t, r, db, sink, "a", "c")
	r.Drain()
	require.NoError(t, r.wait(t))
	// With a position the token says nothing more: the stream goes on under any setting.
	o.SnapshotRedo = false
	for _, change := range others {
		next := o
		change(&next)
		r := start(t, next)
		r.streaming(t)
		db.Exec(t, "insert into a select max(id) + 1, 'later' from a")
		alike(t, r, db, sink, "a", "c")
		r.Drain()
		require.NoError(t, r.wait(t))
	}
}

// TestBaseOrCopyIsNotGuessed: a start ended between making the slot and storing its position.
// The next one goes on where a token would tell of a copy, or no copy can have been; it asks
// where both are possible.
func TestBaseOrCopyIsNotGuessed(t *testing.T) {
	for name, row := range map[string]struct {
		lacks []core.Capability
		asks  bool
	}{
		"keeps a token": {nil, false},
		"no token":      {[]core.Capability{core.CapSnapshotProgress}, true},
		"no snapshot":   {[]core.Capability{core.CapSnapshot, core.CapSnapshotComplete, core.CapSnapshotProgress}, false},
	} {
		t.Run(name, func(t *testing.T) {
			db := filled(t, 17)
			sink := sinktest.NewMemory()
			sink.Caps.Set &^= core.NewCapabilitySet(row.lacks...)
			o := options(db, slot(db), sink)
			reached, once := make(chan struct{}), true
			sink.Before = func(core.Call, core.LSN) error {
				if once {
					once = false
					close(reached)
				}
				return &core.SinkError{Class: core.ClassAway, Call: "HandleTransaction", Code: "away"}
			}
			r := start(t, o)
			<-reached
			r.cancel()
			require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
			require.Equal(t, 1, slots(t, db))
			require.Zero(t, sink.Stored().Position)
			sink.Before = nil
			if row.asks {
				halt := halted(t, start(t, o), core.HaltSnapshotIncomplete)
				require.Contains(t, halt.Detail, "SELECT pg_drop_replication_slot('"+o.Source.Slot+"')")
				db.Exec(t, "select pg_drop_replication_slot('"+o.Source.Slot+"')")
			}
			db.Exec(t, "insert into a values (1001, 'new')")
			r = start(t, o)
			r.streaming(t)
			if !row.asks {
				require.Eventually(t, func() bool { return len(held(sink, "a")) == 1 }, patience, 10*time.Millisecond, "the slot that was there is the one")
			}
			r.Drain()
			require.NoError(t, r.wait(t))
		})
	}
}

// TestCopyLeftWithoutAToken: the same question after a copy that was cut short.
func TestCopyLeftWithoutAToken(t *testing.T) {
	db := filled(t, 17)
	sink := sinktest.NewMemory()
	sink.Caps.Limits = smallUnits
	sink.Caps.Set &^= core.NewCapabilitySet(core.CapSnapshotProgress)
	o := initial(db, sink)
	partly(t, o, &sink.Snapshots)
	require.Empty(t, sink.Token())
	for _, name := range []string{"plain", "forward"} {
		next := o
		others[name](&next)
		require.Contains(t, halted(t, start(t, next), core.HaltSnapshotIncomplete).Detail, "either an initial copy was not completed")
	}
	o.SnapshotRedo = true
	r := start(t, o)
	r.streaming(t)
	alike(t, r, db, sink, "a", "c")
}
