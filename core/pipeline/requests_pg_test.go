package pipeline_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// unseen deletes rows at the source in a way that the stream does not tell.
func unseen(t *testing.T, db *pgtest.DB, where string) {
	t.Helper()
	db.Exec(t, "alter publication p set (publish = 'insert')", "delete from a where "+where,
		"alter publication p set (publish = 'insert, update, delete, truncate')")
}

// completions counts the ends of runs that the sink was told.
func completions(sink *sinktest.Memory) int {
	n := 0
	for _, u := range sink.SnapshotUnits() {
		if u.BackfillComplete {
			n++
		}
	}
	return n
}

func completedTimes(t *testing.T, r *running, sink *sinktest.Memory, times int) {
	t.Helper()
	require.Eventually(t, func() bool { return completions(sink) == times }, patience, 10*time.Millisecond, "%s", r.Status().Reason)
}

func tableState(r *running, table string) string {
	if c := r.Status().Copy; c != nil {
		for _, one := range c.Tables {
			if one.Table == table {
				return one.State
			}
		}
	}
	return ""
}

func refused(t *testing.T, err error, words string) {
	t.Helper()
	var no *pipeline.RefusedError
	require.ErrorAs(t, err, &no)
	require.Contains(t, no.Text, words)
}

const twoTables = "create table a(id int primary key, v text); create table b(v text, w text); " +
	"insert into a select i, 'v' || i from generate_series(1, 1000) i; insert into b select i, 'w' from generate_series(1, 1000) i; " +
	"create publication p for table a, b"

// TestCopyAgain: rows that the source does not have are removed, by a sweep at the end, by
// replacement at the begin, and of a table without a key by replacement always. Another table
// is not touched, and the position stays the stream's.
func TestCopyAgain(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		db := pg.Database(t)
		db.Exec(t, twoTables)
		sink := sinktest.NewMemory()
		r := start(t, beside(db, sink))
		copied(t, r, sink)

		_, err := r.RequestCopy(t.Context(), []string{"nothing"}, false)
		refused(t, err, "not a table of the publications")
		refused(t, r.PauseCopy(t.Context(), ""), "no table is being copied")
		refused(t, r.ResumeCopy(t.Context(), ""), "no copy is paused")
		_, err = r.CancelCopy(t.Context(), []string{"a"})
		refused(t, err, "public.a is not being copied")

		unseen(t, db, "id in (3, 500, 1000)")
		db.Exec(t, "insert into a values (2000, 'streamed')")
		alikeBut(t, r, db, sink, "a", 3)
		before := len(sink.SnapshotUnits())
		names, err := r.RequestCopy(t.Context(), []string{"public.a"}, false)
		require.NoError(t, err)
		require.Equal(t, []string{"public.a"}, names)
		completedTimes(t, r, sink, 2)
		alike(t, r, db, sink, "a", "b")
		swept := sink.SnapshotUnits()[before:]
		for _, u := range swept {
			require.EqualValues(t, 2, u.Generation)
			require.False(t, u.First, "readers never see an empty table")
			require.False(t, u.Relation != nil && u.Relation.Name == "b")
		}
		require.True(t, slices.ContainsFunc(swept, func(u core.SnapshotUnit) bool { return u.Last && u.Sweep }))

		for _, table := range r.Status().Copy.Tables {
			require.Equal(t, table.Table == "b", table.Earlier)
		}

		unseen(t, db, "id between 20 and 30")
		_, err = r.RequestCopy(t.Context(), []string{`"a"`, "B"}, true)
		require.NoError(t, err)
		completedTimes(t, r, sink, 3)
		db.Exec(t, "update a set v = 'y' where id = 7", "insert into b values ('last', 'w')")
		alike(t, r, db, sink, "a", "b")
		resets := map[string]int{}
		for _, u := range sink.SnapshotUnits() {
			if u.First && u.Generation == 3 {
				require.Equal(t, core.ResetAll, u.Reset)
				resets[u.Relation.Name]++
			}
		}
		require.Equal(t, map[string]int{"a": 1, "b": 1}, resets)
		require.Empty(t, sink.Completed())
	})
}

// alikeBut waits until the sink has everything that the source has, and more rows.
func alikeBut(t *testing.T, r *running, db *pgtest.DB, m mirror, table string, more int) {
	t.Helper()
	want := there(t, db, table)
	require.Eventually(t, func() bool { return len(held(m, table)) == len(want)+more }, patience, 10*time.Millisecond, "%s", r.Status().Reason)
}

// gated is a sink that takes few units with rows until it is opened, so that a test meets the
// copy in its middle.
func gated(sink *sinktest.Memory, units int) (open func()) {
	gate := make(chan struct{})
	n := 0
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if len(u.Rows) > 0 {
			if n++; n > units {
				select {
				case <-gate:
				case <-time.After(400 * time.Millisecond): // what was asked for waits for this unit
				}
			}
		}
		return nil
	}
	return func() { close(gate) }
}

// TestCopyPausedAndResumed: nothing is read while a copy is paused, over a restart too, and
// the stream goes on; then the copy comes to its end.
func TestCopyPausedAndResumed(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		for _, amid := range []string{"b", "a"} { // without a key, and with one
			t.Run(amid, func(t *testing.T) { pausedAndResumed(t, pg.Database(t), amid) })
		}
	})
}

// pausedAndResumed pauses the copy when the sink has a part of the table amid.
func pausedAndResumed(t *testing.T, db *pgtest.DB, amid string) {
	db.Exec(t, twoTables)
	sink := sinktest.NewMemory()
	open := gated(sink, 2)
	o := beside(db, sink)
	o.Copy.ChunkRows, o.Copy.Connections = 100, 1
	r := start(t, o)
	require.Eventually(t, func() bool { return len(held(sink, amid)) > 0 }, patience, 5*time.Millisecond)
	_, err := r.RequestCopy(t.Context(), []string{"a"}, false)
	refused(t, err, "there is one at a time")
	if amid == "b" {
		refused(t, r.PauseCopy(t.Context(), "public.b"), "public.a too")
	}
	require.NoError(t, r.PauseCopy(t.Context(), ""))
	require.Equal(t, pipeline.CopyPaused, r.Status().Copy.Phase)
	_, err = r.RequestCopy(t.Context(), []string{"a"}, false)
	refused(t, err, "paused")
	units := len(sink.SnapshotUnits())
	db.Exec(t, "insert into a values (3000, 'meanwhile')", "insert into b values ('meanwhile', 'w')", "delete from a where id = 1",
		"update a set id = 4000 where id = 999")
	has := func(id string) func() bool {
		return func() bool { return strings.Contains(strings.Join(held(sink, "a"), " "), "t"+id) }
	}
	require.Eventually(t, has("4000"), patience, 5*time.Millisecond)
	require.Equal(t, units, countRows(sink, units), "no rows while it is paused")
	require.Zero(t, completions(sink))
	r.Drain()
	require.NoError(t, r.wait(t))

	again := start(t, o)
	require.Eventually(t, func() bool { return again.Status().Copy != nil }, patience, 5*time.Millisecond)
	require.Equal(t, pipeline.CopyPaused, again.Status().Copy.Phase)
	db.Exec(t, "insert into a values (3001, 'meanwhile')")
	require.Eventually(t, has("3001"), patience, 5*time.Millisecond)
	require.Equal(t, units, countRows(sink, units), "nor after a restart")
	open()
	require.NoError(t, again.ResumeCopy(t.Context(), ""))
	completedTimes(t, again, sink, 1)
	alike(t, again, db, sink, "a", "b")
}

// countRows is from plus the units with rows behind it.
func countRows(sink *sinktest.Memory, from int) int {
	n := from
	for _, u := range sink.SnapshotUnits()[from:] {
		if len(u.Rows) > 0 {
			n++
		}
	}
	return n
}

// TestCopyCancelled: the rows stay, the status says that they are a part, the stream goes on,
// and the table can be copied again.
func TestCopyCancelled(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		db := pg.Database(t)
		db.Exec(t, twoTables)
		sink := sinktest.NewMemory()
		open := gated(sink, 2)
		o := beside(db, sink)
		o.Copy.ChunkRows, o.Copy.Connections = 50, 1
		r := start(t, o)
		for _, table := range []string{"b", "a"} {
			require.Eventually(t, func() bool { return len(held(sink, table)) > 0 }, patience, 5*time.Millisecond)
			names, err := r.CancelCopy(t.Context(), []string{table})
			require.NoError(t, err)
			require.Equal(t, []string{"public." + table}, names)
		}
		open()
		completedTimes(t, r, sink, 1)
		some := len(held(sink, "a"))
		require.Positive(t, some)
		require.Less(t, some, 1000)
		require.Eventually(t, func() bool {
			return tableState(r, "a") == pipeline.TablePartial && tableState(r, "b") == pipeline.TablePartial
		}, patience, 5*time.Millisecond)
		db.Exec(t, "insert into a values (3000, 'streamed')", "insert into b values ('streamed', 'w')")
		require.Eventually(t, func() bool {
			return len(held(sink, "a")) == some+1 && strings.Contains(strings.Join(held(sink, "b"), " "), "streamed")
		}, patience, 5*time.Millisecond)
		_, err := r.RequestCopy(t.Context(), []string{"a", "b"}, false)
		require.NoError(t, err)
		completedTimes(t, r, sink, 2)
		alike(t, r, db, sink, "a", "b")
	})
}

// TestCopyAgainOverRestarts: the sidecar ends at every few units of a copy that was asked for,
// and the last one still removes what is stale.
func TestCopyAgainOverRestarts(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		db := pg.Database(t)
		db.Exec(t, twoTables)
		sink := sinktest.NewMemory()
		o := beside(db, sink)
		o.Copy.ChunkRows = 100
		r := start(t, o)
		copied(t, r, sink)
		unseen(t, db, "id % 10 = 0")
		var ending atomic.Pointer[running]
		ending.Store(r)
		units := 0
		sink.AfterSnapshot = func(*core.SnapshotUnit) error {
			if units++; units%4 == 0 {
				ending.Load().cancel()
			}
			return nil
		}
		_, _ = r.RequestCopy(t.Context(), []string{"a"}, false) // it may end with the answer on its way
		restarts := 0
		require.Eventually(t, func() bool {
			select {
			case err := <-r.done:
				r.done <- err
				restarts++
				r = start(t, o)
				ending.Store(r)
			default:
			}
			return completions(sink) == 2
		}, 2*patience, 10*time.Millisecond)
		require.GreaterOrEqual(t, restarts, 2)
		require.Eventually(t, func() bool { return slices.Equal(there(t, db, "a"), held(sink, "a")) }, patience, 20*time.Millisecond)
	})
}

// TestCopyOfAStreamThatBeganWithout: tables of a stream without a snapshot are copied when
// that is asked for, and no others.
func TestCopyOfAStreamThatBeganWithout(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		db := pg.Database(t)
		db.Exec(t, twoTables)
		sink := sinktest.NewMemory()
		o := beside(db, sink)
		o.GoForwardOnly, o.Snapshot = true, checkpoint.SnapshotNone
		r := start(t, o)
		r.streaming(t)
		_, err := r.RequestCopy(t.Context(), []string{"a"}, false)
		refused(t, err, "snapshot: incremental")
		db.Exec(t, "insert into a values (3000, 'streamed')")
		require.Eventually(t, func() bool { return len(held(sink, "a")) == 1 }, patience, 5*time.Millisecond)
		r.Drain()
		require.NoError(t, r.wait(t))
		o.GoForwardOnly, o.Snapshot = false, checkpoint.SnapshotIncremental
		r = start(t, o)
		_, err = r.RequestCopy(t.Context(), []string{"a"}, false)
		require.NoError(t, err)
		completedTimes(t, r, sink, 1)
		alike(t, r, db, sink, "a")
		require.Empty(t, held(sink, "b"))
	})
}
