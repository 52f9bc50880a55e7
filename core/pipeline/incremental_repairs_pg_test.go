package pipeline_test

import (
	"fmt"
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

const movedInto = "do $$ begin delete from a where id = 2; update a set id = 2 where id = 1; end $$"

// deliversTwice streams two rows, and then a transaction whose answer is lost: the next start
// sends it again, and the sink has no row any more to take the column from.
func deliversTwice(t *testing.T, db *pgtest.DB, o pipeline.Options, sink *sinktest.Lib) {
	t.Helper()
	lost := make(chan struct{})
	var armed atomic.Bool
	sink.After = func(core.Call, core.LSN) error {
		if !armed.CompareAndSwap(true, false) {
			return nil
		}
		close(lost)
		return &core.SinkError{Class: core.ClassUnknown, Call: "HandleTransaction", Code: "lost"}
	}
	r := start(t, o)
	r.streaming(t)
	db.Exec(t, "insert into a values (1, 0, repeat('x', 3000)), (2, 0, repeat('y', 3000))")
	require.Eventually(t, func() bool { return r.Status().Durable == r.Status().Received && r.Status().Counters.Transactions == 1 }, 30*time.Second, 10*time.Millisecond)
	armed.Store(true)
	db.Exec(t, movedInto)
	<-lost
	r.cancel()
	require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
}

func outsideSnapshots(t *testing.T, kind checkpoint.Snapshot) (*pgtest.DB, pipeline.Options, *sinktest.Lib) {
	t.Helper()
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
		"insert into a values (900, 0, 'from before')", "create table b(id int primary key)", "insert into b values (1)", "create publication p for table a")
	sink := sinktest.NewLib()
	sink.Caps.Kind = core.StateMirror
	o := beside(db, sink)
	o.Snapshot, o.GoForwardOnly = kind, kind == checkpoint.SnapshotNone
	o.Store, o.GuardInterval = inPostgres(t, db), 20*time.Millisecond
	return db, o, sink
}

// rowsOf are the rows of the table a but those of before.
func rowsOf(rows []string) []string {
	return slices.DeleteFunc(rows, func(row string) bool { return strings.Contains(row, "id=t900") })
}

// TestRedeliveredKeyChangeOutsideSnapshots: the column is read again by the key, and nothing
// else is copied.
func TestRedeliveredKeyChangeOutsideSnapshots(t *testing.T) {
	for name, kind := range map[string]checkpoint.Snapshot{"none": checkpoint.SnapshotNone, "initial": checkpoint.SnapshotInitial} {
		t.Run(name, func(t *testing.T) {
			db, o, sink := outsideSnapshots(t, kind)
			deliversTwice(t, db, o, sink)
			r := start(t, o)
			require.True(t, sink.WaitFor(patience, func(all []sinktest.Transaction) bool { return len(all) == 3 }), "it comes twice")
			whole := func() bool { return slices.Equal(rowsOf(there(t, db, "a")), rowsOf(held(sink, "a"))) }
			require.Eventually(t, whole, patience, 10*time.Millisecond, "the column is lost: %s", r.Status().Reason)
			copied(t, r, sink)
			for _, u := range sink.SnapshotUnits() {
				require.True(t, u.Relation == nil || u.Relation.Name == "a", "nothing is copied")
			}
			require.Equal(t, kind == checkpoint.SnapshotInitial, len(held(sink, "a")) == 2)
			_, err := r.RequestCopy(t.Context(), []string{"a"}, false)
			refused(t, err, "snapshot: incremental")
			r.Drain()
			require.NoError(t, r.wait(t))
			db.Exec(t, "alter publication p add table b") // the token does not know it
			r = start(t, o)
			r.streaming(t)
			db.Exec(t, "insert into b values (2)")
			require.Eventually(t, func() bool { return len(held(sink, "b")) > 0 }, patience, 10*time.Millisecond)
			require.Equal(t, []string{"id=t2"}, held(sink, "b"), "rows of before are not copied")
		})
	}
}

// TestKeyChangeWithoutAnAnswer: the answer is lost and the session goes on. The transaction is
// not simply sent again, since that would leave the column out.
func TestKeyChangeWithoutAnAnswer(t *testing.T) {
	for name, kind := range map[string]checkpoint.Snapshot{"none": checkpoint.SnapshotNone, "incremental": checkpoint.SnapshotIncremental} {
		for _, batch := range []int{0, 20} {
			t.Run(fmt.Sprint(name, batch), func(t *testing.T) {
				db, o, sink := outsideSnapshots(t, kind)
				o.StoreBatch = batch
				var armed atomic.Bool
				sink.After = func(core.Call, core.LSN) error {
					if !armed.CompareAndSwap(true, false) {
						return nil
					}
					return &core.SinkError{Class: core.ClassAway, Call: "HandleTransaction", Code: "lost"}
				}
				r := start(t, o)
				r.streaming(t)
				db.Exec(t, "insert into a values (1, 0, repeat('x', 3000)), (2, 0, repeat('y', 3000))")
				alikeRows := func() bool { return slices.Equal(rowsOf(there(t, db, "a")), rowsOf(held(sink, "a"))) }
				require.Eventually(t, func() bool { return r.Status().Counters.Transactions == 1 && alikeRows() }, 30*time.Second, 10*time.Millisecond)
				armed.Store(true)
				db.Exec(t, movedInto, "insert into a values (7, 0, 'behind')")
				require.Eventually(t, alikeRows, patience, 10*time.Millisecond, "%s", r.Status().Reason)
			})
		}
	}
}

// TestRepairOutsideSnapshotsIsCutShort: a start as before goes on with it, also where a copy
// was made earlier and is complete.
func TestRepairOutsideSnapshotsIsCutShort(t *testing.T) {
	for name, first := range map[string]checkpoint.Snapshot{"none": checkpoint.SnapshotNone, "copied": checkpoint.SnapshotIncremental} {
		t.Run(name, func(t *testing.T) { cutShort(t, first) })
	}
}

func cutShort(t *testing.T, first checkpoint.Snapshot) {
	t.Helper()
	db, o, sink := outsideSnapshots(t, first)
	if first == checkpoint.SnapshotIncremental {
		r := start(t, o)
		copied(t, r, sink)
		r.Drain()
		require.NoError(t, r.wait(t))
		o.Snapshot, o.GoForwardOnly = checkpoint.SnapshotNone, true
	}
	deliversTwice(t, db, o, sink)
	reached, once := make(chan struct{}), false
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if len(u.Rows) == 0 {
			return nil
		}
		if !once {
			once = true
			close(reached)
		}
		return &core.SinkError{Class: core.ClassAway, Call: "HandleSnapshot", Code: "away"}
	}
	r := start(t, o)
	<-reached
	r.cancel()
	require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
	require.NotEqual(t, rowsOf(there(t, db, "a")), rowsOf(held(sink, "a")))
	sink.BeforeSnapshot = nil
	r = start(t, o)
	require.Eventually(t, func() bool { return slices.Equal(rowsOf(there(t, db, "a")), rowsOf(held(sink, "a"))) }, patience, 10*time.Millisecond,
		"%s", r.Status().Reason)
}

// TestRepairWithoutRights: who may not read a table streams it all the same.
func TestRepairWithoutRights(t *testing.T) {
	db, o, sink := outsideSnapshots(t, checkpoint.SnapshotNone)
	role := "c_" + db.Name
	db.Exec(t, "create role "+role+" login replication")
	t.Cleanup(func() { db.Exec(t, "drop role "+role) })
	o.Source.DSN = as(t, db, role)
	deliversTwice(t, db, o, sink)
	r := start(t, o)
	r.streaming(t)
	db.Exec(t, "insert into a values (5, 0, 'on')")
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(held(sink, "a"), func(row string) bool { return strings.Contains(row, "id=t5") })
	}, patience, 10*time.Millisecond, "%s", r.Status().Reason)
	require.Empty(t, sink.SnapshotUnits())
}
