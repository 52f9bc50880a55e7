package cases_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// status waits until the status of the sidecar says something.
func (r *road) status(what string, fact func(pipeline.Status) bool) pipeline.Status {
	r.Helper()
	var last pipeline.Status
	r.until(what, func() bool {
		last = r.pipeline.Status()
		return fact(last)
	})
	return last
}

// beside is another sidecar on the slot of a road, with the same sink.
func (r *road) beside(adjust func(*pipeline.Options)) *road {
	r.Helper()
	w := r.way
	w.adjust, w.waits = adjust, true
	other := &road{scene: r.scene, way: w, sink: r.sink, door: r.door, watch: r.watch, bell: make(chan struct{}, 1)}
	other.begin()
	return other
}

// The server still sees the reader that died: its network is silent, so it waits out its
// patience. The new one says who is in the way, and since when.
func TestS07SlotStillActive(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s07(id int primary key)")
		l := s.wire()
		r := s.road(way{adjust: func(o *pipeline.Options) {
			l.through(o)
			o.Source.SenderTimeout = 1500 * time.Millisecond
		}})
		s.sql("insert into s07 values (1)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		holder := s.app.one("select active_pid from pg_replication_slots where slot_name=" + literal(r.slot))
		l.silence()
		r.crash()
		r.waits = true
		r.begin()
		status := r.status("it waits", func(st pipeline.Status) bool { return st.State == pipeline.StateStandby })
		require.Equal(s, holder, fmt.Sprint(status.StandbyHolder))
		require.Contains(s, status.Reason, "process "+holder)
		require.Contains(s, status.Reason, "since 20")
		r.status("it streams by itself", func(st pipeline.Status) bool { return st.State == pipeline.StateStreaming })
		s.sql("insert into s07 values (2)")
		s.done()
		require.Len(s, r.transactions(), 2)
	})
}

// A reader that was frozen wakes after another one took over. It delivers nothing more.
func TestS07FrozenReaderWakes(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s07(id int primary key)")
		l := s.wire()
		patience := func(o *pipeline.Options) { o.Source.SenderTimeout = 1500 * time.Millisecond }
		frozen := s.road(way{adjust: func(o *pipeline.Options) {
			l.through(o)
			patience(o)
		}})
		l.silence()
		second := frozen.beside(patience)
		second.status("it waits", func(st pipeline.Status) bool { return st.State == pipeline.StateStandby })
		s.sql("insert into s07 values (1)")
		second.status("it takes over", func(st pipeline.Status) bool { return st.State == pipeline.StateStreaming })
		s.sql("insert into s07 values (2)")
		second.until("both are stored", func() bool { return len(frozen.transactions()) == 2 })
		l.thaw()
		// It finds its connection dead, or what it had read already is refused.
		frozen.until("it gives way", func() bool {
			st := frozen.pipeline.Status()
			return st.State == pipeline.StateStandby || st.State == pipeline.StateHalted
		})
		if frozen.pipeline.Status().State == pipeline.StateHalted {
			frozen.halts(core.HaltFenced)
			frozen.waits = true
			frozen.begin()
			frozen.status("it waits", func(st pipeline.Status) bool { return st.State == pipeline.StateStandby })
		}
		s.sql("insert into s07 values (3)")
		second.until("all are stored", func() bool { return len(frozen.transactions()) == 3 })
		second.drain()
		frozen.status("it has its turn", func(st pipeline.Status) bool { return st.State == pipeline.StateStreaming })
		s.done()
	})
}

func TestS08SlotLost(t *testing.T) {
	eachSpare(t, 14, func(s *scene) {
		s.set("min_wal_size", "32MB")
		s.set("max_wal_size", "32MB")
		s.set("max_slot_wal_keep_size", "32MB")
		s.sql("create table s08(id int primary key)")
		var busy atomic.Bool
		r := s.road(way{adjust: looksOften, before: func(core.LSN) error {
			if busy.Load() {
				return &core.Refusal{Reason: core.ReasonNotReady, RetryAfter: 20 * time.Millisecond}
			}
			return nil
		}})
		s.sql("insert into s08 values (1)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		stored := r.sink.Stored().Position
		busy.Store(true)
		s.sql("insert into s08 values (2)")
		s.filler()
		s.sql("select pg_switch_wal()")
		status := r.status("the danger is told before", func(st pipeline.Status) bool { return st.Guard.Warning != "" })
		require.Regexp(s, "WAL budget|may remove WAL", status.Guard.Warning)
		r.abort()
		require.Error(s, r.over()) // or the server was faster
		for range 2 {
			s.filler()
			s.sql("select pg_switch_wal()")
		}
		s.sql("checkpoint")
		require.Equal(s, "lost", s.app.one("select wal_status from pg_replication_slots where slot_name="+literal(r.slot)))
		r.waits = true
		r.begin()
		halt := r.halts(core.HaltSlotInvalidated)
		require.Contains(s, halt.Error(), "wal_removed")
		require.Contains(s, halt.Error(), "max_slot_wal_keep_size")
		require.Contains(s, halt.Error(), stored.String())
		require.Equal(s, "lost", s.app.one("select wal_status from pg_replication_slots where slot_name="+literal(r.slot)), "nothing is made anew")
		require.Len(s, r.transactions(), 1)
	})
}

func TestS09IdleTimeout(t *testing.T) {
	eachSpare(t, 18, func(s *scene) {
		s.sql("create table s09(id int primary key)")
		r := s.road(way{})
		s.sql("insert into s09 values (1)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		r.drain()
		s.set("idle_replication_slot_timeout", "1s")
		r.waits = true
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		for s.app.one("select coalesce(invalidation_reason,'') from pg_replication_slots where slot_name="+literal(r.slot)) == "" {
			<-look.C
			s.sql("checkpoint")
		}
		r.begin()
		halt := r.halts(core.HaltSlotInvalidated)
		require.Contains(s, halt.Error(), "idle_timeout")
		require.Contains(s, halt.Error(), "idle_replication_slot_timeout")
		require.NotContains(s, halt.Error(), "max_slot_wal_keep_size")
	})
}

func TestS16SourceNotPrepared(t *testing.T) {
	eachSpare(t, 14, func(s *scene) {
		s.sql("create table s16(id int primary key)")
		role := "s16_" + s.db.Name[:8]
		s.sql("create role " + role + " login")
		refused := func(role string, code core.HaltCode, say string) {
			r := s.road(way{role: role, waits: true})
			halt := r.halts(code)
			text, _ := core.Explain(code)
			require.Contains(s, text.Do, say, "the statement that mends it")
			require.Zero(s, r.sink.Stored().Position)
			require.Equal(s, "0", s.app.one("select count(*) from pg_replication_slots where slot_name="+literal(r.slot)), halt.Error())
		}
		refused(role, core.HaltSourceRights, "REPLICATION")
		s.sql("alter role "+role+" replication", "revoke connect on database "+quoted(s.db.Name)+" from public")
		refused(role, core.HaltSourceRights, "CONNECT")
		s.sql("grant connect on database " + quoted(s.db.Name) + " to " + role)
		s.roads = nil
		s.road(way{role: role})
		s.done()
		s.roads[0].released()
		s.sql("select pg_drop_replication_slot(slot_name) from pg_replication_slots where database=current_database()", "drop owned by "+role, "drop role "+role)
		s.roads = nil
		s.set("wal_level", "replica")
		s.restart()
		refused("postgres", core.HaltWALLevel, "restart")
	})
}

func TestS17NothingFree(t *testing.T) {
	eachSpare(t, 14, func(s *scene) {
		s.sql("create table s17(id int primary key)")
		s.set("max_replication_slots", "2")
		s.set("max_wal_senders", "1")
		s.restart()
		short := func(o *pipeline.Options) { o.Source.SenderTimeout = 300 * time.Millisecond }
		first := s.road(way{})
		second := s.road(way{adjust: short, waits: true})
		halt := second.halts(core.HaltSlotsExhausted)
		require.Contains(s, halt.Error(), "max_wal_senders")
		require.Equal(s, pipeline.StateStreaming, first.pipeline.Status().State)
		first.drain()
		s.sql("select pg_create_physical_replication_slot('s17_forgotten')")
		third := s.road(way{adjust: short, waits: true})
		halt = third.halts(core.HaltSlotsExhausted)
		require.Contains(s, halt.Error(), "max_replication_slots")
		require.Contains(s, halt.Error(), "s17_forgotten (unused)")
		require.Contains(s, halt.Error(), first.slot+" (unused)")
		s.sql("select pg_drop_replication_slot('s17_forgotten')")
		third.waits = false
		third.begin()
	})
}

func TestS18SlotOfAnotherKind(t *testing.T) {
	each(t, func(s *scene) {
		other := s.db.Server.Database(s.T)
		for code, make := range map[core.HaltCode][]string{
			core.HaltSlotPlugin + "":  {"logical", "select pg_create_logical_replication_slot(%s,'test_decoding')"},
			core.HaltSlotDatabase:     {"database", ""},
			core.HaltSlotPlugin + " ": {"physical", "select pg_create_physical_replication_slot(%s)"},
		} {
			code = core.HaltCode(strings.TrimSpace(string(code)))
			slot := "s18_" + make[0] + "_" + s.db.Name[:8]
			if make[1] == "" {
				other.Exec(s, "select pg_create_logical_replication_slot("+literal(slot)+",'pgoutput')")
			} else {
				s.sql(fmt.Sprintf(make[1], literal(slot)))
			}
			for _, adopt := range []bool{false, true} {
				r := s.road(way{slot: slot, waits: true, adjust: func(o *pipeline.Options) { o.AdoptSlot = adopt }})
				halt := r.halts(code)
				if code == core.HaltSlotPlugin {
					require.Contains(s, halt.Error(), map[string]string{"logical": "plugin", "physical": "physical"}[make[0]])
				}
				require.Equal(s, "1", s.app.one("select count(*) from pg_replication_slots where slot_name="+literal(slot)), "nothing is dropped")
			}
			if make[0] == "physical" {
				s.sql("select pg_drop_replication_slot(" + literal(slot) + ")")
			}
		}
	})
}

// Two pipelines with a sink each are given one slot.
func TestS19TwoPipelinesOneSlot(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s19(id int primary key)")
		first := s.road(way{})
		second := s.road(way{slot: first.slot, waits: true})
		second.status("it waits", func(st pipeline.Status) bool { return st.State == pipeline.StateStandby })
		s.sql("insert into s19 values (1)")
		first.until("it is stored", func() bool { return len(first.transactions()) == 1 })
		first.drain()
		// The slot's position is not the second sink's: it never had one.
		second.halts(core.HaltCheckpointMissing)
		require.Empty(s, second.sink.Transactions())
		s.sql("insert into s19 values (2)")
		first.begin()
		s.roads = s.roads[:1]
		s.done()
		require.Len(s, first.transactions(), 2)
	})
}

// A transaction that is open for long makes the server read old WAL again at each start.
func TestS20OldTransaction(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table s20(id int primary key)", "create table other(t text)", "create publication narrow for table s20, mark")
		old := s.session("postgres", pinned)
		r := s.road(way{publications: []string{"narrow"}, adjust: looksOften})
		old.sql("begin", "insert into other values ('old')")
		// The insert position: what the open transaction wrote need not be written out yet.
		held := s.app.lsn("select pg_current_wal_insert_lsn()")
		s.sql("checkpoint", "insert into s20 values (1)")
		s.filler()
		s.filler()
		r.until("the position has moved on", func() bool { return r.confirmed() > held+16<<20 })
		r.crash()
		r.begin()
		require.LessOrEqual(s, s.app.lsn("select restart_lsn from pg_replication_slots where slot_name="+literal(r.slot)), held)
		r.status("it tells what the server keeps", func(st pipeline.Status) bool { return st.Guard.HeldBytes > 32<<20 })
		require.EqualValues(s, 1, r.pipeline.Status().Sessions)
		old.sql("commit")
		s.done()
	})
}

func TestS21OpenTransactionAtTheStart(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s21(id int primary key)")
		old := s.session("postgres", pinned)
		pid := old.one("select pg_backend_pid()")
		old.sql("begin", "insert into s21 values (1)")
		r := s.road(way{waits: true, adjust: func(o *pipeline.Options) { o.Source.SenderTimeout = 600 * time.Millisecond }})
		status := r.status("it says what it waits for", func(st pipeline.Status) bool { return strings.Contains(st.Reason, "open since") })
		require.Contains(s, status.Reason, "cannot be made")
		if strings.Contains(status.Reason, "process "+pid+" ") == false {
			s.Logf("another transaction of this server is older: %s", status.Reason)
		}
		r.crash()
		r.until("nothing is left of it", func() bool {
			return s.app.one("select (select count(*) from pg_replication_slots where slot_name="+literal(r.slot)+
				") + (select count(*) from pg_stat_activity where backend_type='walsender' and datname=current_database())") == "0"
		})
		r.begin()
		old.sql("commit")
		r.status("it streams", func(st pipeline.Status) bool { return st.State == pipeline.StateStreaming })
		s.sql("insert into s21 values (2)")
		s.mark()
		require.Equal(s, []string{"insert s21 new{id=<2>}", commit}, r.shown())
	})
}

// A fast shutdown waits for its readers. An idle one lets go at once, one whose sink is
// stuck within a bounded time.
func TestS24FastShutdown(t *testing.T) {
	const immediate = 9 * time.Second // after 10 s the test's server would be told to hurry
	eachSpare(t, 14, func(s *scene) {
		s.sql("create table s24(id int primary key)")
		var stuck atomic.Bool
		release := make(chan struct{})
		r := s.road(way{away: true, adjust: looksOften, before: func(core.LSN) error {
			if stuck.CompareAndSwap(true, false) {
				<-release
			}
			return nil
		}})
		began := time.Now()
		require.NoError(s, s.db.Server.Stop())
		require.Less(s, time.Since(began), immediate)
		r.status("it is away", func(st pipeline.Status) bool { return st.State == pipeline.StateSourceAway })
		s.restart()
		r.status("it is back", func(st pipeline.Status) bool { return st.State == pipeline.StateStreaming })
		stuck.Store(true)
		s.sql("insert into s24 values (1)")
		r.until("the sink is stuck", func() bool { return !stuck.Load() })
		began = time.Now()
		require.NoError(s, s.db.Server.Stop())
		require.Less(s, time.Since(began), immediate, "with a sink that is stuck")
		s.restart()
		close(release)
		r.until("it is stored once", func() bool { return len(r.transactions()) == 1 })
		s.done()
	})
}

func TestS28HeldBack(t *testing.T) {
	eachSpare(t, 17, func(s *scene) {
		s.sql("create table s28(id int primary key)")
		slot := "case_s28_" + s.db.Name[:8]
		s.sql("select pg_create_logical_replication_slot(" + literal(slot) + ",'pgoutput',false,false,true)")
		r := s.road(way{slot: slot, adjust: func(o *pipeline.Options) { o.AdoptSlot, o.GuardInterval = true, guardOften }})
		s.set("synchronized_standby_slots", "gone")
		status := r.status("it says who holds it back", func(st pipeline.Status) bool { return st.Guard.Warning != "" })
		require.Contains(s, status.Guard.Warning, "synchronized_standby_slots")
		require.Contains(s, status.Guard.Warning, "gone")
		s.sql("insert into s28 values (1)")
		s.sql("alter system reset synchronized_standby_slots", "select pg_reload_conf()")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		r.status("all is well", func(st pipeline.Status) bool { return st.Guard.Warning == "" })
		s.done()
	})
}
