package pipeline_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// beside are options of a pipeline that copies beside the stream.
func beside(db *pgtest.DB, sink core.Sink) pipeline.Options {
	o := options(db, slot(db), sink)
	o.GoForwardOnly, o.Snapshot = false, checkpoint.SnapshotIncremental
	o.Copy.ChunkRows = 100
	return o
}

// copied waits until the sink has been told that the run is complete.
func copied(t *testing.T, r *running, sink interface{ SnapshotUnits() []core.SnapshotUnit }) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(sink.SnapshotUnits(), func(u core.SnapshotUnit) bool { return u.BackfillComplete })
	}, patience, 10*time.Millisecond, "%s", r.Status().Reason)
}

// on17 is for tests of which every major would take too long.
func on17(t *testing.T, test func(*testing.T, *pgtest.Server)) { test(t, pgtest.Shared(t, 17)) }

// TestIncrementalCopy: tables with rows and without, on a source that is idle.
func TestIncrementalCopy(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key, v text)",
			"insert into a select i, case when i % 7 > 0 then 'v' || i end from generate_series(1, 1000) i",
			"create table b(id int primary key)", "create publication p for all tables")
		sink := sinktest.NewMemory()
		o := beside(db, sink)
		r := start(t, o)
		copied(t, r, sink)
		alike(t, r, db, sink, "a", "b")

		units := sink.SnapshotUnits()
		require.Nil(t, units[0].Relation, "the run is armed first")
		require.Empty(t, sink.Completed(), "the position must not move")
		firsts, lasts := map[string]int{}, map[string]int{}
		for _, u := range units {
			require.EqualValues(t, 1, u.Generation)
			require.NotEmpty(t, u.Token)
			if u.First {
				require.Empty(t, u.Rows)
				require.Equal(t, core.ResetSnapshotRows, u.Reset)
				firsts[u.Relation.Name]++
			}
			if u.Last {
				lasts[u.Relation.Name]++
			}
		}
		require.Equal(t, map[string]int{"a": 1, "b": 1}, firsts)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, lasts)
		state, err := incremental.Decode(units[len(units)-1].Token)
		require.NoError(t, err)
		require.True(t, state.Complete)

		db.Exec(t, "insert into b values (1)", "update a set id = -id where id < 10", "delete from a where id = 400")
		alike(t, r, db, sink, "a", "b")
		r.Drain()
		require.NoError(t, r.wait(t))
		// A second run copies nothing.
		again := start(t, o)
		again.streaming(t)
		db.Exec(t, "insert into b values (2)")
		alike(t, again, db, sink, "b")
		require.Len(t, sink.SnapshotUnits(), len(units))
	})
}

// TestIncrementalCopyUnderLoad: rows come, change, go and change their keys meanwhile, with
// a TOAST column that most changes leave alone.
func TestIncrementalCopyUnderLoad(t *testing.T) {
	on17(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
			"insert into a select i, 0, repeat('x', 3000) from generate_series(1, 2000) i", "create publication p for all tables")
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan int)
		const writers = 3
		for w := range writers {
			conn := db.Conn(t)
			go func() { over <- load(ctx, conn, w) }()
		}
		sink := sinktest.NewMemory()
		sink.BeforeSnapshot = func(*core.SnapshotUnit) error { time.Sleep(2 * time.Millisecond); return nil }
		o := beside(db, sink)
		o.Delivery.Mode = pipeline.ModeBatch
		r := start(t, o)
		copied(t, r, sink)
		stop()
		for range writers {
			require.Positive(t, <-over)
		}
		alike(t, r, db, sink, "a")
	})
}
