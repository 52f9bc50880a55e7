package cases_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// small makes a copy of many units.
var small = core.SinkLimits{PreferredBytes: 2000, RequestBytes: 100_000}

// pause holds a sink at the first unit of a table until it is let go.
type pause struct {
	reached, gate chan struct{}
	once          sync.Once
}

func newPause() *pause { return &pause{reached: make(chan struct{}), gate: make(chan struct{})} }

// at is for way.wrap.
func (p *pause) at(table string) func(*sinktest.Memory) core.Sink {
	return func(m *sinktest.Memory) core.Sink {
		first := true
		m.BeforeSnapshot = func(u *core.SnapshotUnit) error {
			if first && isOf(u, table) {
				first = false
				close(p.reached)
				<-p.gate
			}
			return nil
		}
		return m
	}
}

// isOf reports that a unit is of a table: one that arms a copy is of none.
func isOf(u *core.SnapshotUnit, table string) bool {
	return u.Relation != nil && u.Relation.Name == table
}

func (p *pause) release() { p.once.Do(func() { close(p.gate) }) }

// halfway starts a road and waits until its copy stands at a table.
func (s *scene) halfway(table string, w way) (*road, *pause) {
	s.Helper()
	p := newPause()
	adjust := w.adjust
	w.route, w.waits, w.wrap = inProcess, true, p.at(table)
	w.adjust = func(o *pipeline.Options) {
		copying(o)
		o.GuardInterval = 50 * time.Millisecond
		if adjust != nil {
			adjust(o)
		}
	}
	r := s.road(w)
	s.Cleanup(p.release) // before the end of the road is waited for
	select {
	case <-p.reached:
	case <-r.ended:
		require.FailNow(s, "the sidecar ended", "%v", r.result)
	case <-time.After(patience):
		require.FailNow(s, "the copy does not come to the table")
	}
	return r, p
}

func (r *road) streams() {
	r.Helper()
	r.until("it streams", func() bool { return r.pipeline.Status().State == pipeline.StateStreaming })
}

// Rows are updated, deleted, inserted and given other keys while they are copied.
func TestN01ChangedWhileCopied(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n01(id int primary key, v int)", "insert into n01 select i,0 from generate_series(1,3000) i")
		r, p := s.halfway("n01", way{limits: small})
		var writers sync.WaitGroup
		for w := range 4 {
			writer := s.session("postgres", nil)
			writers.Go(func() {
				for n := w; n < 800; n += 4 {
					if n == 400+w {
						p.release() // the other half comes while the rows are delivered
					}
					id := n*37%3000 + 1
					_, err := writer.try([]string{
						fmt.Sprintf("update n01 set v=v+1 where id=%d", id), fmt.Sprintf("delete from n01 where id=%d", id),
						fmt.Sprintf("insert into n01 values (%d,7)", 10000+n), fmt.Sprintf("update n01 set id=-id where id=%d", id),
					}[n%4])
					if err != nil {
						s.Errorf("writer: %v", err)
					}
				}
			})
		}
		writers.Wait()
		r.streams()
		s.mark()
		r.mirrored()
		r.drain()
	})
}

// The sidecar ends when all rows were read and not all are stored: nothing counts as done.
func TestN02EndsBeforeTheLastRowIsStored(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n02(id int primary key)", "insert into n02 select generate_series(1,100)")
		r, p := s.halfway("n02", way{})
		r.abort()
		p.release()
		require.ErrorIs(s, r.over(), pipeline.ErrAbort)
		require.Zero(s, r.sink.Stored().Position)
		r.begin()
		halt := r.halts(core.HaltSnapshotIncomplete)
		require.Contains(s, halt.Detail, "--snapshot-redo")
		require.Contains(s, halt.Detail, "SELECT pg_drop_replication_slot('"+r.slot+"')")
		before := r.adjust
		r.adjust = func(o *pipeline.Options) { before(o); o.SnapshotRedo = true }
		r.begin()
		r.streams()
		s.mark()
		r.mirrored()
		require.Len(s, r.sink.Rows("public", "n02"), 100)
		r.drain()
	})
}

// An empty table is told apart from one that was not read: it has one unit, first and last.
func TestN08EmptyTables(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n08(id int primary key)", "create table n08b(id int primary key)", "insert into n08b values (1)")
		r, p := s.halfway("n08", way{})
		s.sql("delete from n08b")
		p.release()
		r.streams()
		s.mark()
		r.mirrored()
		for _, u := range r.sink.SnapshotUnits() {
			if u.Relation == nil {
				continue // the token, before the slot
			}
			require.True(s, u.First && u.Last, "%s", u.Relation.Name)
			require.Len(s, u.Rows, map[string]int{"n08b": 1}[u.Relation.Name])
		}
		require.Len(s, r.sink.Completed()[0].Relations, 3)
		r.drain()
	})
}

// Timeouts of role and database end no session of a copy, and no statement of it.
func TestN10IdleTimeouts(t *testing.T) {
	each(t, func(s *scene) {
		role := "n10_" + s.db.Name
		s.sql("create table n10(id int primary key)", "insert into n10 select generate_series(1,1000)",
			"create role "+role+" login superuser replication",
			"alter role "+role+" set idle_in_transaction_session_timeout='100ms'", "alter role "+role+" set idle_session_timeout='150ms'")
		s.Cleanup(func() { s.sql("drop role " + role) })
		r, p := s.halfway("n10", way{role: role, limits: small})
		time.Sleep(600 * time.Millisecond)
		p.release()
		r.streams()
		require.EqualValues(s, 1, r.pipeline.Status().Sessions)
		require.Len(s, r.sink.Rows("public", "n10"), 1000)
		s.mark()
		r.drain()
	})
}

func TestN11StatementTimeouts(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n11(id int primary key, v text)", "insert into n11 select i, repeat('x', 2000) from generate_series(1,5000) i")
		names := []string{"statement_timeout", "lock_timeout"}
		if s.major >= 17 {
			names = append(names, "transaction_timeout")
		}
		role := "n11_" + s.db.Name
		s.sql("create role " + role + " login superuser replication")
		s.Cleanup(func() { s.sql("drop role " + role) })
		for _, name := range names {
			s.sql("alter role " + role + " set " + name + "='200ms'")
		}
		r, p := s.halfway("n11", way{role: role, limits: small})
		time.Sleep(500 * time.Millisecond) // COPY waits for its reader
		p.release()
		r.streams()
		s.mark()
		require.Len(s, r.sink.Rows("public", "n11"), 5000)
		r.drain()
	})
}

// A table that changes between the slot and the copy's lock is noticed before a row is
// delivered; one that is to change later waits for the copy.
func TestN14TableChangedAtTheStart(t *testing.T) {
	each(t, func(s *scene) {
		for name, change := range map[string]string{
			"column added": "alter table n14 add x int", "column dropped": "alter table n14 drop v", "rewritten": "alter table n14 alter id type bigint",
			"renamed": "alter table n14 rename to n14b", "dropped": "drop table n14", "truncated": "truncate n14",
			"added to the publication": "alter publication q add table other; insert into other values (2)",
		} {
			s.sql("drop table if exists n14, n14b, other", "drop publication if exists q",
				"create table n14(id int primary key, v text)", "insert into n14 values (1,'x')", "create table other(id int primary key)", "insert into other values (1)",
				"create publication q for table n14, mark")
			r := s.road(way{route: inProcess, waits: true, publications: []string{"q"}, adjust: copying, wrap: func(m *sinktest.Memory) core.Sink {
				m.Caps.Set |= core.NewCapabilitySet(core.CapSlotOrigin)
				return atTheSlot{m, func() { s.sql("begin; " + change + "; commit") }}
			}})
			halt := r.halts(core.HaltSnapshotIncomplete)
			require.Contains(s, halt.Detail, "slot was made", name)
			require.Len(s, r.sink.SnapshotUnits(), 1, name)
			require.Nil(s, r.sink.SnapshotUnits()[0].Relation, "the token alone")
			s.sql("select pg_drop_replication_slot(" + literal(r.slot) + ")")
		}
	})
}

// atTheSlot does something when the slot was made and its snapshot is not adopted yet.
type atTheSlot struct {
	*sinktest.Memory
	do func()
}

// The copy is cut twenty times; each time it begins again, says so, and leaves nothing
// twice.
func TestN15EndsInTheMiddle(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n15(v text)", "insert into n15 select 'same' from generate_series(1,500)")
		calls, fail := 0, map[int]bool{}
		for n := 2; len(fail) < 20; n += 5 {
			fail[n] = true
		}
		r := s.road(way{route: inProcess, limits: core.SinkLimits{PreferredBytes: 700, RequestBytes: 10_000}, adjust: copying, wrap: func(m *sinktest.Memory) core.Sink {
			m.AfterSnapshot = func(*core.SnapshotUnit) error {
				if calls++; fail[calls] {
					return &core.SinkError{Class: core.ClassAway, Call: "HandleSnapshot"}
				}
				return nil
			}
			return m
		}})
		require.Len(s, r.sink.Rows("public", "n15"), 500)
		firsts := 0
		for _, u := range r.sink.SnapshotUnits() {
			if u.First && isOf(&u, "n15") {
				require.Equal(s, core.ResetAll, u.Reset)
				firsts++
			}
		}
		require.Greater(s, firsts, 1)
		s.mark()
		r.drain()
	})
}

// Policies that would hide rows stop the copy before the slot is made.
func TestN17RowLevelSecurity(t *testing.T) {
	each(t, func(s *scene) {
		role := "n17_" + s.db.Name
		s.sql("create table n17(id int primary key)", "insert into n17 values (1),(2)", "alter table n17 enable row level security",
			"create role "+role+" login replication", "grant select on n17, mark to "+role)
		s.Cleanup(func() { s.sql("drop owned by "+role, "drop role "+role) })
		r := s.road(way{role: role, adjust: copying, waits: true})
		halt := r.halts(core.HaltSourceRights)
		require.Equal(s, "public.n17", halt.Relation)
		require.Equal(s, "0", s.app.one("select count(*) from pg_replication_slots where slot_name="+literal(r.slot)))
		s.sql("alter role " + role + " bypassrls")
		r.begin()
		r.streams()
		require.Len(s, r.sink.Rows("public", "n17"), 2)
		s.mark()
		r.drain()
	})
}

// A slot that is lost or dropped while rows are copied ends the copy.
func TestN18SlotGoneWhileCopying(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n18(id int primary key)", "insert into n18 select generate_series(1,1000)")
		reached, began := make(chan struct{}), time.Time{}
		r := s.road(way{route: inProcess, waits: true, limits: small, adjust: func(o *pipeline.Options) {
			copying(o)
			o.GuardInterval = guardOften
		}, wrap: units(func(u *core.SnapshotUnit) error {
			if isOf(u, "n18") && began.IsZero() {
				began = time.Now()
				close(reached)
			}
			if !began.IsZero() && time.Since(began) < 10*time.Second { // far longer than the guard needs
				return &core.Refusal{Reason: core.ReasonNotReady, RetryAfter: guardOften}
			}
			return nil
		}, nil)})
		<-reached
		s.sql("select pg_drop_replication_slot(" + literal(r.slot) + ")")
		halt := r.halts(core.HaltSnapshotIncomplete)
		require.Contains(s, halt.Detail, "dropped the slot")
		require.Zero(s, r.sink.Stored().Position)
	})
}

// Nothing is written after the copy: the stream begins all the same.
func TestN19QuietAfterTheCopy(t *testing.T) {
	eachAlone(t, func(s *scene) {
		s.sql("create table n19(id int primary key)", "insert into n19 values (1)")
		r := s.road(way{adjust: copying})
		require.Equal(s, pipeline.CopyDone, r.pipeline.Status().Copy.Phase)
		s.sql("insert into n19 values (2)")
		s.mark()
		r.mirrored()
		r.drain()
	})
}

// After a copy, and after one that failed, no session of ours keeps a snapshot.
func TestN20NoSnapshotIsLeft(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n20(id int primary key)", "insert into n20 select generate_series(1,1000)")
		r, p := s.halfway("n20", way{limits: small})
		ours := func() string {
			return s.app.one("select count(*) from pg_stat_activity where datname=current_database() and pid<>pg_backend_pid() and (backend_xmin is not null or state like 'idle in transaction%')")
		}
		require.NotEqual(s, "0", ours())
		p.release()
		r.streams()
		s.eventually("the copy's sessions are gone", func() bool { return ours() == "0" })
		r.drain()
		failed, p := s.halfway("n20", way{limits: small})
		failed.abort()
		p.release()
		require.Error(s, failed.over())
		s.eventually("the failed copy's sessions are gone", func() bool { return ours() == "0" })
	})
}

// The number of queries follows the rows, not the range of the key.
func TestN23SparseKeys(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n23(id bigint primary key)", "insert into n23 values (1),(7234567890123456789)",
			"insert into n23 select 7234567890123456789-i from generate_series(1,1000) i")
		r := s.road(way{adjust: copying, limits: small})
		require.Len(s, r.sink.Rows("public", "n23"), 1002)
		s.mark()
		r.drain()
	})
}

// The sink hears of the slot's origin before anything is read.
func (a atTheSlot) HandleSlotOrigin(context.Context, core.SlotOrigin) error {
	a.do()
	return nil
}
