package cases_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// A stop that comes while the sink's answer is on its way.
func TestO01GracefulStop(t *testing.T) {
	const stops = 8
	each(t, func(s *scene) {
		s.sql("create table o01(id int primary key)")
		var stop atomic.Bool
		var r *road
		r = s.road(way{after: func(core.LSN) error {
			if stop.CompareAndSwap(true, false) {
				r.pipeline.Drain()
			}
			return nil
		}})
		for i := range stops {
			stop.Store(true)
			s.sql(fmt.Sprintf("insert into o01 values (%d)", i))
			require.NoError(s, r.over())
			require.Equal(s, r.sink.Stored().Position, r.confirmed())
			status := r.pipeline.Status()
			require.Zero(s, status.Replayed+status.Skipped, "stop %d: something was sent again", i)
			r.begin()
		}
		s.done()
		require.Len(s, r.transactions(), stops)
	})
}

func TestO01StopWithAStuckSink(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table o01(id int primary key)")
		var stuck atomic.Bool
		release := make(chan struct{})
		r := s.road(way{
			before: func(core.LSN) error {
				if stuck.CompareAndSwap(true, false) {
					<-release
				}
				return nil
			},
			adjust: func(o *pipeline.Options) { o.DrainTimeout = 200 * time.Millisecond },
		})
		stuck.Store(true)
		s.sql("insert into o01 values (1)")
		r.until("the sink is stuck", func() bool { return !stuck.Load() })
		at := r.confirmed()
		r.pipeline.Drain()
		require.ErrorIs(s, r.over(), pipeline.ErrLeftOpen, "it ends, though the sink has not answered")
		require.Equal(s, at, r.confirmed())
		close(release)
		r.begin()
		s.done()
		require.Len(s, r.transactions(), 1)
	})
}

// reachable waits until the server of the scene takes connections again.
func (s *scene) reachable() {
	s.Helper()
	s.eventually("the server is back", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		conn, err := pgconn.Connect(ctx, s.db.DSN)
		if err != nil {
			return false
		}
		return conn.Close(ctx) == nil
	})
	s.again()
}

// writes inserts on a session of its own until that is lost.
func (s *scene) writes(table string, from int) (ended chan struct{}) {
	writer := s.session("postgres", pinned)
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		for i := from; ; i++ {
			if _, err := writer.try(fmt.Sprintf("insert into %s values (%d)", table, i)); err != nil {
				return
			}
		}
	}()
	return ended
}

func TestO02PostgresRestarts(t *testing.T) {
	eachSpare(t, 14, func(s *scene) {
		s.sql("create table o02(id int primary key)")
		r := s.road(way{away: true})
		for i, fault := range []struct {
			name string
			hit  func()
		}{
			{"fast", func() {
				require.NoError(s, s.db.Server.Stop())
				s.restart()
			}},
			{"the postmaster is killed", func() {
				require.NoError(s, s.db.Server.Kill())
				s.restart()
			}},
			{"the walsender is killed", func() {
				var pid int
				_, err := fmt.Sscan(s.app.one("select active_pid from pg_replication_slots where slot_name="+literal(r.slot)), &pid)
				require.NoError(s, err)
				require.NoError(s, syscall.Kill(pid, syscall.SIGKILL)) // Postgres ends every session and recovers
			}},
		} {
			before := r.pipeline.Status()
			ended := s.writes("o02", (i+1)*1_000_000)
			n := len(r.transactions())
			r.until("rows come", func() bool { return len(r.transactions()) > n+5 })
			fault.hit()
			<-ended
			s.reachable()
			r.status("it streams again after "+fault.name, func(st pipeline.Status) bool {
				return st.Sessions > before.Sessions && st.State == pipeline.StateStreaming
			})
			s.mark()
		}
		s.done()
	})
}

// held is what this process and the server keep for the road.
type held struct{ goroutines, files, sessions int }

func (r *road) held() held {
	r.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		files = nil // not everywhere
	}
	var h held
	_, err = fmt.Sscan(r.app.one("select count(*) from pg_stat_activity where datname=current_database()"), &h.sessions)
	require.NoError(r, err)
	h.goroutines, h.files = runtime.NumGoroutine(), len(files)
	return h
}

func o03Reconnects() int {
	if os.Getenv("REPLICANT_CASES") == "long" {
		return 1000
	}
	return 10
}

func TestO03ManyReconnects(t *testing.T) {
	eachAlone(t, func(s *scene) {
		s.sql("create table o03(id int primary key)")
		r := s.road(way{})
		var first held
		for i := range o03Reconnects() {
			before := r.pipeline.Status().Sessions
			s.sql(fmt.Sprintf("insert into o03 values (%d)", i)) // progress makes the next pause short
			r.until("it is stored", func() bool { return len(r.transactions()) == i+1 })
			s.sql("select pg_terminate_backend(active_pid) from pg_replication_slots where active and slot_name=" + literal(r.slot))
			r.until("a new session", func() bool { return r.pipeline.Status().Sessions > before })
			if i == 2 {
				r.until("what went has gone", func() bool { first = r.held(); return first.sessions <= 4 })
			}
		}
		var last held
		r.until("nothing was left behind", func() bool {
			last = r.held()
			return last.goroutines <= first.goroutines+2 && last.files <= first.files+2 && last.sessions <= first.sessions
		})
		s.done()
	})
}

// The sink stands still while much is written. What is not read stays at the server, and
// the slot guard sees it.
func TestO04SlowSink(t *testing.T) {
	const written, heapMax = 28 << 20, 14 << 20
	eachAlone(t, func(s *scene) {
		s.sql("create table o04(id int primary key, t text)", "alter table o04 alter t set storage external")
		var stuck atomic.Bool
		release := make(chan struct{})
		r := s.road(way{route: inProcess, adjust: looksOften, before: func(core.LSN) error {
			if stuck.CompareAndSwap(true, false) {
				<-release
			}
			return nil
		}})
		stuck.Store(true)
		s.sql("insert into o04 values (-1,'')")
		r.until("the sink is stuck", func() bool { return !stuck.Load() })
		before := heap()
		s.sql(fmt.Sprintf("do $$ begin for i in 1..%d loop insert into o04 values (i, repeat('x',20000)); commit; end loop; end $$", written/20000))
		r.heartbeats(50) // whoever reads ahead without bound has time to
		grown := int64(heap()) - int64(before)
		held := r.status("the guard sees what is held", func(st pipeline.Status) bool { return st.Guard.HeldBytes > written/2 })
		require.Greater(s, held.LagBytes, int64(written/2))
		close(release)
		require.Less(s, grown, int64(heapMax))
		r.until("all is stored", func() bool { return len(r.transactions()) == 1+written/20000 })
		r.drain()
		require.NoError(s, inOrder(r.sink.Transactions(), r.sink.Units()))
	})
}

func TestO05RequestLimit(t *testing.T) {
	const wide = 8 << 20
	each(t, func(s *scene) {
		s.sql("create table o05(id int primary key, t text)", "alter table o05 alter t set storage external")
		r := s.road(way{})
		s.sql("insert into o05 select i, repeat('x',100000) from generate_series(2,80) i",
			"do $$ begin for i in 100..130 loop insert into o05 values (i, repeat('x',100000)); commit; end loop; end $$")
		r.until("all is stored", func() bool { return len(r.transactions()) == 32 })
		require.True(s, r.sink.Transactions()[0].Large, "8 MB do not fit into one request")
		for _, unit := range r.sink.Units() {
			require.Less(s, unit.Transactions*100000, core.RequestBytesDefault)
		}
		s.sql(fmt.Sprintf("insert into o05 values (1, repeat('secret!', %d))", wide/7))
		for range 2 {
			halt := r.halts(core.HaltValueTooLarge)
			require.Contains(s, halt.Error(), "public.o05")
			require.Regexp(s, `\d{7}`, halt.Error(), "its size")
			require.NotContains(s, halt.Error(), "secret!")
			require.Len(s, r.transactions(), 32)
			r.waits = true
			r.begin()
		}
		r.halts(core.HaltValueTooLarge)
	})
}

func TestO06AcksAreMerged(t *testing.T) {
	const transactions = 1000
	each(t, func(s *scene) {
		s.sql("create table o06(id int primary key)")
		l := s.wire()
		r := s.road(way{route: inProcess, mode: pipeline.ModeTransaction, adjust: func(o *pipeline.Options) {
			l.through(o)
			o.Source.StatusInterval = time.Hour // a third of the server's patience counts
		}})
		s.sql(fmt.Sprintf("do $$ begin for i in 1..%d loop insert into o06 values (i); commit; end loop; end $$", transactions))
		s.mark()
		require.Len(s, r.transactions(), transactions)
		told := len(l.positions())
		require.NotZero(s, told)
		require.Less(s, told, transactions/5, "status updates follow their timer, not the sink's answers")
		s.done()
	})
}

// The sink's answer is none that the contract knows.
func TestO08UnknownAnswer(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table o08(id int primary key)")
		var broken atomic.Bool
		r := s.road(way{before: func(core.LSN) error {
			if broken.Load() {
				return errors.New("secret! and nothing that anybody knows")
			}
			return nil
		}})
		broken.Store(true)
		s.sql("insert into o08 values (1)")
		seen := false
		r.until("it halts, and said why before", func() bool {
			st := r.pipeline.Status()
			seen = seen || st.State == pipeline.StateSinkUnavailable && st.Reason != ""
			return st.State == pipeline.StateHalted
		})
		require.True(s, seen)
		halt := r.halts(core.HaltSinkFailed)
		require.NotContains(s, halt.Error()+r.pipeline.Status().LastError, "secret!")
		require.Equal(s, halt, r.pipeline.Status().LastHalt)
		require.Empty(s, r.transactions())
	})
}

// The table is taken out of the publication: not green and silent.
func TestO08TableLeaves(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table o08(id int primary key)", "create publication few for table o08, mark")
		r := s.road(way{publications: []string{"few"}, adjust: looksOften})
		r.status("it knows", func(st pipeline.Status) bool { return st.Published.Tables == 2 })
		s.sql("alter publication few drop table o08", "insert into o08 values (1)")
		r.warns(`"public"."o08" is no longer published`)
		r.status("it counts", func(st pipeline.Status) bool { return st.Published.Tables == 1 })
		r.drain()
	})
}

// What the server sends cannot be read: the first cause is the one that is shown.
func TestO08StreamThatCannotBeRead(t *testing.T) {
	eachScripted(t, func(s *scripted) {
		s.send(beginOf(begin+0x100, 7), relationOf(5, "o08"), insertOf(5, "1"), commitOf(begin+0x100, begin+0x130),
			message(byte('I'), uint32(5)), message(byte('Z')))
		s.halts(core.HaltMalformedStream)
		require.Len(s, s.sink.Transactions(), 1)
	})
}

// Slots of other kinds stand beside ours, with NULL in every column that can have it, and
// the role may not see other sessions.
func TestO10NullsInTheSlotView(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table o10(id int primary key)")
		s.makeHostileRole()
		physical := "o10_" + s.db.Name[:8]
		s.sql("select pg_create_physical_replication_slot("+literal(physical)+")", "grant select on o10, mark to hostile")
		defer s.sql("select pg_drop_replication_slot(" + literal(physical) + ")")
		r := s.road(way{role: hostileRole, adjust: looksOften})
		status := r.status("the guard sees the slot", func(st pipeline.Status) bool { return st.Guard.WALStatus != "" })
		require.Nil(s, status.Guard.SafeBytes, "unknown, not zero")
		require.Empty(s, status.Guard.Warning)
		second := r.beside(looksOften)
		second.status("it waits", func(st pipeline.Status) bool { return st.State == pipeline.StateStandby && st.StandbyHolder != 0 })
		second.crash()
		s.sql("insert into o10 values (1)")
		s.done()
	})
}
