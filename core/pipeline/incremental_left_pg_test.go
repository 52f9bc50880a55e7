package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestCopyIsNotLeftBehind: a copy is cut short; a start that would stream without it halts,
// so that a key change out of what is not copied is not missed.
func TestCopyIsNotLeftBehind(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			sink := sinktest.NewLib()
			sink.Caps.Kind = core.StateMirror
			db := pgtest.Shared(t, 17).Database(t)
			o := beside(db, sink)
			o.Store = open(t, db)
			leftBehind(t, db, o, &sink.Snapshots, sink)
		})
	}
	t.Run("sink", func(t *testing.T) {
		sink := sinktest.NewMemory()
		db := pgtest.Shared(t, 17).Database(t)
		leftBehind(t, db, beside(db, sink), &sink.Snapshots, sink)
	})
}

func leftBehind(t *testing.T, db *pgtest.DB, o pipeline.Options, s *sinktest.Snapshots, sink interface {
	mirror
	SnapshotUnits() []core.SnapshotUnit
	Transactions() []sinktest.Transaction
}) {
	t.Helper()
	db.Exec(t, "create table a(id int primary key, v text)", "alter table a alter v set storage external",
		"insert into a select i, repeat('x', 3000) from generate_series(1, 1000) i", "create publication p for table a")
	units, reached := 0, make(chan struct{})
	s.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if len(u.Rows) == 0 {
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
	<-reached
	r.cancel()
	require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
	s.BeforeSnapshot = nil

	db.Exec(t, "update a set id = -1 where id = 900")
	plain := o
	plain.Snapshot, plain.GoForwardOnly = checkpoint.SnapshotNone, true
	halted(t, start(t, plain), core.HaltSnapshotIncomplete)
	require.Empty(t, sink.Transactions(), "before anything is delivered")

	r = start(t, o)
	copied(t, r, sink)
	alike(t, r, db, sink, "a")
	r.Drain()
	require.NoError(t, r.wait(t))
	r = start(t, plain)
	r.streaming(t)
	db.Exec(t, "insert into a values (5000, 'y')")
	alike(t, r, db, sink, "a")
}

// TestUnreadableTokenHalts where nothing is copied, too.
func TestUnreadableTokenHalts(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key)", "create publication p for table a")
	sink := sinktest.NewMemory()
	o := beside(db, sink)
	r := start(t, o)
	copied(t, r, sink)
	r.cancel()
	require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
	token := sink.Token()
	token[len(token)/2] ^= 1
	o.Snapshot, o.GoForwardOnly = checkpoint.SnapshotNone, true
	halted(t, start(t, o), core.HaltProgressInvalid)
}
