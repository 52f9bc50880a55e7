package pipeline_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestIncrementalCopyWithAStore: token and position are in the row of our own, the rows at
// the sink; the sidecar is killed between them.
func TestIncrementalCopyWithAStore(t *testing.T) {
	for name, open := range stores {
		for _, batch := range []int{0, 20} {
			t.Run(name, func(t *testing.T) {
				db := pgtest.Shared(t, 17).Database(t)
				db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
					"insert into a select i, 0, repeat('x', 3000) from generate_series(1, 2000) i", "create publication p for table a")
				ctx, stop := context.WithCancel(t.Context())
				over := make(chan int)
				conn := db.Conn(t)
				go func() { over <- load(ctx, conn, 1) }()
				sink := sinktest.NewLib()
				sink.Caps.Kind = core.StateMirror
				sink.BeforeSnapshot = func(*core.SnapshotUnit) error { time.Sleep(2 * time.Millisecond); return nil }
				o := beside(db, sink)
				o.StoreBatch = batch
				o.Store = open(t, db)
				for range 3 {
					aborted, abort := context.WithCancel(t.Context())
					p, err := pipeline.New(o)
					require.NoError(t, err)
					time.AfterFunc(time.Duration(100+rand.IntN(300))*time.Millisecond, abort)
					require.ErrorIs(t, p.Run(aborted), pipeline.ErrAbort)
				}
				if batch == 0 {
					stop() // one transaction a write would never catch up
				}
				r := start(t, o)
				copied(t, r, sink)
				stop()
				require.Positive(t, <-over)
				alike(t, r, db, sink, "a")
				for _, u := range sink.SnapshotUnits() {
					require.Empty(t, u.Token, "the token is not the sink's")
				}
				row, found, err := o.Store.Read(t.Context(), o.Source.Slot)
				require.NoError(t, err)
				require.True(t, found)
				state, err := incremental.Decode(row.Progress)
				require.NoError(t, err)
				require.True(t, state.Complete || state.Tables[0].Status != incremental.Done)
			})
		}
	}
}

// TestRedeliveredKeyChange: {delete 2; move 1 to 2}, in one transaction or in two, takes
// effect twice at a sink whose checkpoint is ours. The second time the sink has no row to
// take the column from; so its key is read again, though the copy was complete.
func TestRedeliveredKeyChange(t *testing.T) {
	for name, statements := range map[string][]string{
		"in one": {"do $$ begin delete from a where id = 2; update a set id = 2 where id = 1; end $$"},
		"in two": {"delete from a where id = 2", "update a set id = 2 where id = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Shared(t, 17).Database(t)
			db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
				"insert into a values (1, 0, repeat('x', 3000)), (2, 0, repeat('y', 3000))", "create publication p for table a")
			sink := sinktest.NewLib()
			sink.Caps.Kind = core.StateMirror
			o := beside(db, sink)
			o.Store = inPostgres(t, db)
			if len(statements) > 1 { // both before the row is written
				o.StoreBatch, o.Delivery.MaxDelay = len(statements), 5*time.Second
			}
			r := start(t, o)
			copied(t, r, sink)
			alike(t, r, db, sink, "a")
			taken := 0
			sink.After = func(core.Call, core.LSN) error {
				if taken++; taken != len(statements) {
					return nil
				}
				r.cancel()
				return &core.SinkError{Class: core.ClassUnknown, Call: "HandleTransaction", Code: "lost"}
			}
			db.Exec(t, statements...)
			require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
			again := start(t, o)
			require.True(t, sink.WaitFor(patience, func(all []sinktest.Transaction) bool { return len(all) == 2*len(statements) }), "all comes twice")
			alike(t, again, db, sink, "a")
		})
	}
}
