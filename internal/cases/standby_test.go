package cases_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// replica is a standby of the scene's server, and a session on it.
type replica struct {
	*scene
	server *pgembed.Server
	look   *session
}

func (s *scene) replica(settings map[string]string) *replica {
	s.Helper()
	server, err := s.db.Server.Standby(s.Context(), settings)
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, server.Close()) })
	r := &replica{scene: s, server: server}
	there := &scene{T: s.T, major: s.major, db: &pgtest.DB{Server: s.db.Server, Name: s.db.Name, DSN: server.DSN(s.db.Name)}}
	r.look = there.session("postgres", pinned)
	return r
}

// at leads a road to the replica.
func (r *replica) at(o *pipeline.Options) { o.Source.DSN = r.server.DSN(r.db.Name) }

// orPrimary leads a road to whichever of the two takes writes, the replica asked first.
func (r *replica) orPrimary(o *pipeline.Options) {
	first, second := r.params(r.server.DSN(r.db.Name)), r.params(r.db.DSN)
	q := url.Values{"sslmode": {"disable"}, "target_session_attrs": {"read-write"}}
	q.Set("host", first.Get("host")+","+second.Get("host"))
	q.Set("port", first.Get("port")+","+second.Get("port"))
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + r.db.Name, RawQuery: q.Encode()}
	o.Source.DSN = u.String()
}

func (r *replica) params(dsn string) url.Values {
	u, err := url.Parse(dsn)
	require.NoError(r, err)
	return u.Query()
}

// caughtUp waits until the replica has all that the primary has.
func (r *replica) caughtUp() {
	r.Helper()
	end := r.app.one("select pg_current_wal_flush_lsn()")
	r.eventually("the replica has caught up", func() bool {
		return r.look.one("select pg_last_wal_replay_lsn() >= "+literal(end)) == "t"
	})
}

// promote makes it the primary, once the other one is gone.
func (r *replica) promote() {
	r.Helper()
	require.NoError(r, r.db.Server.Kill())
	require.Equal(r, "t", r.look.one("select pg_promote()"))
}

// synced copies failover slots to the replica until ours is there for good.
func (r *replica) synced(slot string, at core.LSN) {
	r.Helper()
	r.eventually("the slot is there", func() bool {
		r.sql("select pg_log_standby_snapshot()")
		_, err := r.look.try("select pg_sync_replication_slots()")
		return err == nil && r.look.one("select count(*) from pg_replication_slots where synced and not temporary and confirmed_flush_lsn >= "+
			literal(at.String())+" and slot_name="+literal(slot)) == "1"
	})
}

// failoverSlot makes a slot that is kept at the replica too.
func (s *scene) failoverSlot() string {
	slot := "case_fail_" + strings.TrimRight(s.db.Name[:8], "_")
	s.sql("select pg_create_logical_replication_slot(" + literal(slot) + ",'pgoutput',false,false,true)")
	return slot
}

// The new primary has no slot of ours, and then one that somebody made by hand.
func TestS14FailoverWithoutTheSlot(t *testing.T) {
	eachSpare(t, 14, func(s *scene) {
		s.sql("create table s14(id int primary key)")
		other := s.replica(nil)
		forgetful := s.road(way{adjust: other.orPrimary})
		remembers := s.road(way{adjust: other.orPrimary, route: inProcess, resumes: true})
		s.sql("insert into s14 values (1)")
		for _, r := range s.roads {
			r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
			r.away = true
		}
		other.caughtUp()
		other.promote()
		for _, r := range s.roads { // each finds the new primary by itself
			halt, ok := core.AsHalt(r.over())
			require.True(s, ok)
			require.Contains(s, []core.HaltCode{core.HaltSlotMissing, core.HaltTimelineChanged}, halt.Code)
			other.look.sql("select pg_create_logical_replication_slot(" + literal(r.slot) + ",'pgoutput')")
			r.waits = true
		}
		other.look.sql("insert into s14 values (2)")
		forgetful.begin()
		forgetful.halts(core.HaltSlotAhead)
		remembers.begin()
		halt := remembers.halts(core.HaltTimelineChanged)
		require.Contains(s, halt.Error(), "timeline 2")
		for _, r := range s.roads {
			require.Len(s, r.transactions(), 1)
		}
	})
}

// A failover slot that Postgres kept in step is proof enough: it goes on by itself.
func TestS14FailoverSlot(t *testing.T) {
	eachSpare(t, 17, func(s *scene) {
		s.sql("create table s14(id int primary key)")
		other := s.replica(map[string]string{"hot_standby_feedback": "on"})
		s.set("synchronized_standby_slots", pgembed.StandbySlot)
		slot := s.failoverSlot()
		r := s.road(way{slot: slot, away: true, resumes: true, adjust: func(o *pipeline.Options) {
			other.orPrimary(o)
			o.AdoptSlot = true
		}})
		s.sql("insert into s14 select generate_series(1,50)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		r.until("it is confirmed", func() bool { return r.confirmed() >= r.transactions()[0].EndLSN })
		other.synced(slot, r.transactions()[0].EndLSN)
		s.sql("insert into s14 values (51)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 2 })
		other.promote()
		other.look.sql("insert into s14 values (52)")
		r.until("it goes on", func() bool { return len(r.transactions()) == 3 })
		require.Equal(s, "52", r.text(2, 0, "id"))
		require.NoError(s, inOrder(r.sink.Transactions(), r.sink.Units()))
		r.watch.replace(other.look)
		require.Empty(s, differencesOf(r))
	})
}

func TestS29SyncedSlot(t *testing.T) {
	eachSpare(t, 17, func(s *scene) {
		s.sql("create table s29(id int primary key)")
		other := s.replica(map[string]string{"hot_standby_feedback": "on"})
		slot := s.failoverSlot()
		r := s.road(way{slot: slot, away: true, adjust: func(o *pipeline.Options) { o.AdoptSlot = true }})
		s.sql("insert into s29 values (1)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		other.synced(slot, r.transactions()[0].EndLSN)
		r.drain()
		r.adjust, r.waits = other.at, true
		r.begin()
		r.halts(core.HaltSlotSynced)
		other.caughtUp()
		other.promote()
		other.look.sql("insert into s29 values (2)")
		r.begin()
		r.until("the same configuration does now", func() bool { return len(r.transactions()) == 2 })
	})
}

// keepsLogging lets a slot on a standby come into being, which waits for a word of the
// primary.
func (r *replica) keepsLogging(fact func() bool) {
	r.Helper()
	r.eventually("a slot at the standby", func() bool {
		r.sql("select pg_log_standby_snapshot()")
		return fact()
	})
}

func TestS09ConflictOnAStandby(t *testing.T) {
	eachSpare(t, 16, func(s *scene) {
		s.sql("create table s09(id int primary key)")
		other := s.replica(nil)
		r := s.road(way{away: true, waits: true, adjust: other.at})
		r.watch.replace(other.look)
		other.keepsLogging(func() bool { return r.pipeline.Status().State == pipeline.StateStreaming })
		r.drain()
		other.eventually("the conflict", func() bool {
			s.sql("create table conflict(x int)", "drop table conflict", "vacuum full pg_class", "insert into s09 select coalesce(max(id),0)+1 from s09")
			other.caughtUp()
			return other.look.one("select conflicting from pg_replication_slots where slot_name="+literal(r.slot)) == "t"
		})
		r.begin()
		halt := r.halts(core.HaltSlotInvalidated)
		require.Regexp(s, "conflict|rows_removed", halt.Error())
		require.Contains(s, halt.Error(), "hot_standby_feedback")
		require.NotContains(s, halt.Error(), "max_slot_wal_keep_size")
	})
}

func TestC03Standby(t *testing.T) {
	eachSpare(t, 14, func(s *scene) {
		s.sql("create table c03(id int primary key)")
		other := s.replica(map[string]string{"hot_standby_feedback": "on"})
		r := s.road(way{away: true, waits: true, adjust: other.at})
		if s.major < 16 {
			halt := r.halts(core.HaltServerUnsupported)
			require.Contains(s, halt.Error(), "standby")
			return
		}
		r.watch.replace(other.look)
		other.keepsLogging(func() bool { return r.pipeline.Status().State == pipeline.StateStreaming })
		for i := range 3 {
			s.sql(fmt.Sprintf("insert into c03 values (%d)", i))
		}
		r.until("it is stored", func() bool { return len(r.transactions()) == 3 })
		r.drain()
		require.Equal(s, "0", s.app.one("select count(*) from pg_replication_slots where slot_type='logical'"), "nothing was written at the primary")
	})
}
