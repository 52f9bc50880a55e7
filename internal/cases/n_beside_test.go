package cases_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// beside makes a road copy the rows that are there in small chunks beside its stream.
func beside(o *pipeline.Options) {
	o.GoForwardOnly, o.Snapshot = false, checkpoint.SnapshotIncremental
	o.Copy.ChunkRows, o.GuardInterval = 20, guardOften
}

// units is for way.wrap: it looks at each unit of a snapshot, before and after.
func units(before, after func(*core.SnapshotUnit) error) func(*sinktest.Memory) core.Sink {
	return func(m *sinktest.Memory) core.Sink {
		m.BeforeSnapshot, m.AfterSnapshot = before, after
		return m
	}
}

// complete waits until so many runs have ended.
func (r *road) complete(runs int) {
	r.Helper()
	r.until("the copy is complete", func() bool {
		n := 0
		for _, u := range r.sink.SnapshotUnits() {
			if u.BackfillComplete {
				n++
			}
		}
		return n >= runs
	})
}

// A crash before and after every kind of write while chunks are copied: the slot is never
// confirmed above what is stored, and the copy goes on.
func TestN03CrashAmidTheCopy(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n03(id int primary key, v int)", "insert into n03 select i,0 from generate_series(1,400) i")
		var r *road
		var traps [4]trap
		ready := make(chan struct{}) // r is there
		dies := func(i int) func(*core.SnapshotUnit) error {
			return func(*core.SnapshotUnit) error {
				<-ready
				r.sample()
				return traps[i].spring(&r)(0)
			}
		}
		traps[0].set.Store(true)
		r = s.road(way{
			route: inProcess, waits: true, adjust: beside, wrap: units(dies(0), dies(1)),
			before: traps[2].spring(&r), after: traps[3].spring(&r),
		})
		close(ready)
		for n := range 12 {
			s.sql(fmt.Sprintf("update n03 set v=v+1 where id %% 12 = %d", n), fmt.Sprintf("update n03 set id=-id where id=%d", 30*n+7))
			require.Error(s, r.over())
			traps[(n+1)%4].set.Store(n < 11)
			r.begin()
		}
		r.complete(1)
		s.mark()
		r.mirrored()
		require.Positive(s, r.samples.Load())
		r.drain()
	})
}

// Rows were deleted while the slot was gone. The tables are copied again: the sink is told
// which generation begins and when it is whole, and drops what did not come again.
func TestN21DeletedInTheGap(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n21(id int primary key, v text)", "insert into n21 select i,'copied' from generate_series(1,100) i")
		r := s.road(way{route: inProcess, adjust: beside})
		r.complete(1)
		s.sql("insert into n21 values (200,'streamed'),(201,'streamed')")
		s.mark()
		r.drain()
		s.sql("select pg_drop_replication_slot("+literal(r.slot)+")", "delete from n21 where id in (7,200)", "insert into n21 values (300,'missed')")
		r.waits = true
		r.begin()
		r.halts(core.HaltSlotMissing)
		// The operator lets the stream begin anew, and asks for the tables.
		r.sink.SetStored(core.Checkpoint{Epoch: r.sink.Stored().Epoch})
		r.durable.Store(0)
		r.waits, r.adjust = false, func(o *pipeline.Options) { o.GuardInterval = guardOften }
		r.begin()
		r.drain()
		r.adjust = beside
		r.begin()
		s.sql("insert into n21 values (400,'after')")
		s.mark()
		require.Len(s, r.sink.Rows("public", "n21"), 103, "the gap")
		before := len(r.sink.SnapshotUnits())
		_, err := r.pipeline.RequestCopy(context.Background(), []string{"n21", "mark"}, false)
		require.NoError(s, err)
		r.complete(2)
		s.mark()
		r.mirrored()
		over := map[string]bool{}
		for _, u := range r.sink.SnapshotUnits()[before:] {
			require.EqualValues(s, 2, u.Generation)
			if u.Last {
				require.True(s, u.Sweep)
				over[u.Relation.Name] = true
			}
		}
		require.Len(s, over, 2, "the end of each is told")
		r.drain()
	})
}

// Timeouts of the role end no session of a copy beside the stream, not even the one that
// stands in a table without a key until the sink is ready.
func TestN10TimeoutsBesideTheStream(t *testing.T) {
	each(t, func(s *scene) {
		role := "n10b_" + s.db.Name
		s.sql("create table n10(id int primary key, v text)", "insert into n10 select i, repeat('x', 500) from generate_series(1,100) i",
			"create table keyless(v text)", "insert into keyless select 'same' from generate_series(1,100)", "create role "+role+" login superuser replication")
		s.Cleanup(func() { s.sql("drop role " + role) })
		names := []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"}
		if s.major >= 17 {
			names = append(names, "transaction_timeout")
		}
		for _, name := range names {
			s.sql("alter role " + role + " set " + name + "='100ms'")
		}
		slow := func(u *core.SnapshotUnit) error {
			if u.Relation != nil && len(u.Rows) > 0 {
				time.Sleep(150 * time.Millisecond)
			}
			return nil
		}
		r := s.road(way{route: inProcess, role: role, adjust: beside, wrap: units(slow, nil)})
		r.complete(1)
		require.EqualValues(s, 1, r.pipeline.Status().Sessions)
		require.Empty(s, r.pipeline.Status().Copy.Failing)
		s.mark()
		r.mirrored()
		r.drain()
	})
}

// A table gets another shape while its copy ends, a little before and a little after: the
// rows behind it have that shape, though nothing of the table was streamed before.
func TestD03ShapeChangedAtTheHandOver(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table d03(id int primary key)", "create publication q for table d03, mark")
		var at atomic.Pointer[func(*core.SnapshotUnit)]
		r := s.road(way{route: inProcess, publications: []string{"q"}, schemaChanges: true, adjust: beside, wrap: units(func(u *core.SnapshotUnit) error {
			if f := at.Load(); f != nil && u.Relation != nil {
				(*f)(u)
			}
			return nil
		}, nil)})
		r.complete(1)
		other := s.session("postgres", nil)
		runs := 1
		for _, identity := range []string{"default", "full"} {
			for n, wait := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond} {
				for _, last := range []bool{false, true} {
					table := fmt.Sprintf("u_%s_%d_%t", identity, n, last)
					changed := make(chan error, 1)
					hook := func(u *core.SnapshotUnit) {
						if u.Relation.Name == table && (len(u.Rows) > 0 && !last || u.Last) && at.Swap(nil) != nil {
							go func() { changed <- other.reshape(table, wait) }()
						}
					}
					at.Store(&hook)
					s.sql("create table "+table+"(id int "+map[string]string{"default": "primary key", "full": ""}[identity]+")",
						"alter table "+table+" replica identity "+identity, "insert into "+table+" select generate_series(1,100)",
						"alter publication q add table "+table)
					runs++
					r.complete(runs)
					require.NoError(s, <-changed)
					s.mark()
					rows := r.sink.Rows("public", table)
					require.Len(s, rows, 101, table)
					require.Contains(s, shown(rows), "id=1000 z=2", table)
					if identity == "default" {
						s.sql("update " + table + " set z = id") // what was copied before has no z
					} else {
						s.sql("alter publication q drop table " + table)
					}
				}
			}
		}
		s.mark()
		r.mirrored()
		require.Len(s, r.published(), 8)
		r.drain()
	})
}

// shown prints rows of two columns.
func shown(rows []sinktest.Row) (lines []string) {
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("id=%s z=%s", r.Values["id"].Text, r.Values["z"].Text))
	}
	return lines
}

// reshape adds a column and a row that has it.
func (c *session) reshape(table string, wait time.Duration) error {
	time.Sleep(wait)
	_, err := c.try("begin; alter table " + table + " add z int; insert into " + table + " values (1000, 2); commit")
	return err
}
