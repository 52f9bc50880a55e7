package windows

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func init() {
	add(anyMajor, casesFailover)
	add(17, casesSyncedSlot)
}

// casesFailover are failovers to a standby that has no copy of the slot.
var casesFailover = []window{
	{"U11", 0, "UP, base backup, kill and promotion", "HALT(data_gap.slot_missing) twice", failedOverWithoutSlot},
}

// casesSyncedSlot are failovers with a slot that Postgres keeps in step.
var casesSyncedSlot = []window{
	{"U11", 0, "UP, synced slot, kill and promotion", exact + " timeline 2", failedOver(false)},
	{"U11", 0, "UP, synced slot, promotion; SC restarted", exact + " timeline 2", failedOver(true)},
	{"U11", 0, "UP, synced slot behind the sink, promotion", "HALT(source_timeline_changed) twice", failedOverBehind},
	{"U24", 0, "UP, S SIGINT, a synchronized standby away", exact + " no halt", stopsWithoutStandby},
}

// follower starts a standby of the source's server.
func (s *scene) follower(settings map[string]string) *pgtest.Server {
	s.Helper()
	standby, err := s.server.Standby(s.ctx, settings)
	require.NoError(s.T, err)
	s.Cleanup(func() { require.NoError(s.T, standby.Close()) })
	return &pgtest.Server{Server: standby, Major: s.major}
}

// at is the source's database at another server.
func (s *scene) at(server *pgtest.Server) *pgtest.DB {
	return &pgtest.DB{Server: server, Name: s.source.Name, DSN: server.DSN(s.source.Name)}
}

// promoted makes the standby the source, when the primary has been killed.
func (s *scene) promoted(standby *pgtest.Server) {
	s.Helper()
	pid := s.server.PID()
	require.NoError(s.T, s.server.Kill())
	to := s.at(standby)
	require.Equal(s.T, "true", s.ask(to.DSN, "SELECT pg_promote()::text"))
	require.Equal(s.T, "2", s.ask(to.DSN, "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 8, 1)"))
	s.server, s.source, s.reads = standby, to, nil
	s.seen("postmaster %d killed, timeline 2", pid)
}

// caughtUp waits until the standby has replayed all that the source has written.
func (s *scene) caughtUp(standby *pgtest.Server) {
	s.Helper()
	end := s.ask(s.source.DSN, "SELECT pg_current_wal_lsn()::text")
	s.until("the standby has replayed it", func() bool {
		return s.ask(standby.DSN("postgres"), "SELECT (pg_last_wal_replay_lsn() >= $1::text::pg_lsn)::text", end) == "true"
	})
}

// failedOverWithoutSlot: the standby has no slot, so nobody kept what it would have sent.
func failedOverWithoutSlot(s *scene) {
	s.own().base()
	standby := s.follower(nil)
	s.startSink("")
	sidecar := s.startSidecar("")
	s.write()
	s.arrived()
	s.stop(sidecar)
	s.sampled()
	s.caughtUp(standby)
	s.promoted(standby)
	s.write()
	s.from = s.source.DSN
	s.halted(s.startSidecar(""), core.HaltSlotMissing)
	s.halted(s.startSidecar(""), core.HaltSlotMissing)
	require.False(s.T, s.there(s.tx))
}

// syncs marks the slot for failover and starts a standby that keeps it in step.
func (s *scene) syncs() *pgtest.Server {
	s.Helper()
	conn, err := pgconn.Connect(s.ctx, s.source.ReplicationDSN())
	require.NoError(s.T, err)
	_, err = conn.Exec(s.ctx, `ALTER_REPLICATION_SLOT "`+s.slot+`" (FAILOVER true)`).ReadAll()
	require.NoError(s.T, err)
	require.NoError(s.T, conn.Close(s.ctx))
	return s.follower(map[string]string{"sync_replication_slots": "on", "hot_standby_feedback": "on"})
}

// synced waits until the standby's copy of the slot would outlive a promotion. It moves
// only with the slot.
func (s *scene) synced(standby *pgtest.Server) {
	s.Helper()
	s.until("the slot is synced", func() bool {
		s.write()
		s.arrived()
		s.source.Exec(s.T, "SELECT pg_log_standby_snapshot()", "SELECT pg_switch_wal()")
		time.Sleep(200 * time.Millisecond)
		return s.ask(standby.DSN("postgres"), "SELECT (synced AND failover AND NOT temporary)::text FROM pg_replication_slots WHERE slot_name = $1", s.slot) == "true"
	})
}

// behind is a proxy before the source that can lead elsewhere.
func (s *scene) behind() *proxy {
	s.Helper()
	p, dsn := s.postgres(s.source.DSN, nil)
	s.from = dsn
	return p
}

func (p *proxy) follow(server *pgtest.Server) {
	p.lead(filepath.Join(server.Dir(), fmt.Sprintf(".s.PGSQL.%d", server.Port())))
	p.cutAll()
}

// failedOver: the primary sends nothing that the standby does not have, so what the sink
// has is on both sides of the fork, and what was lost with the primary was never sent.
func failedOver(restarted bool) func(*scene) {
	return func(s *scene) {
		s.long(2 * limit).own().base()
		standby := s.syncs()
		s.source.Exec(s.T, "ALTER SYSTEM SET synchronized_standby_slots = 'standby'", "SELECT pg_reload_conf()")
		p := s.behind()
		s.startSink("")
		sidecar := s.startSidecar("")
		s.synced(standby)
		s.writeMany(3)
		s.arrived()
		(&pgtest.DB{Server: standby, Name: "postgres"}).Exec(s.T, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
		s.until("the standby is cut off", func() bool {
			return s.ask(standby.DSN("postgres"), "SELECT count(*)::text FROM pg_stat_wal_receiver") == "0"
		})
		s.write()
		time.Sleep(time.Second)
		require.False(s.T, s.there(s.tx), "it was sent before the standby had it")
		s.seen("transaction %d was held back", s.tx)
		s.tx-- // and is lost
		if restarted {
			s.kill(sidecar)
		}
		s.sampled()
		s.promoted(standby)
		p.follow(standby)
		s.watch()
		if restarted {
			sidecar = s.startSidecar("")
		}
		s.write()
		s.judge(0, 0)
		require.Empty(s.T, sidecar.halt())
	}
}

// failedOverBehind: the standby lacks what the sink has, and the promoted server writes
// other transactions at the same positions.
func failedOverBehind(s *scene) {
	s.long(2 * limit).own().base()
	standby := s.syncs()
	p := s.behind()
	s.startSink("")
	sidecar := s.startSidecar("")
	s.synced(standby)
	(&pgtest.DB{Server: standby, Name: "postgres"}).Exec(s.T, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	s.until("the standby is cut off", func() bool {
		return s.ask(standby.DSN("postgres"), "SELECT count(*)::text FROM pg_stat_wal_receiver") == "0"
	})
	s.writeMany(3)
	s.arrived()
	s.kill(sidecar)
	s.sampled()
	s.promoted(standby)
	p.follow(standby)
	before, err := s.durable()(s.ctx)
	require.NoError(s.T, err)
	s.tx -= 3
	s.until("the new timeline has other transactions below the checkpoint", func() bool {
		s.write()
		return s.ask(s.source.DSN, "SELECT (pg_current_wal_lsn() > $1::text::pg_lsn)::text", before.String()) == "true"
	})
	s.writeMany(3)
	s.halts(s.startSidecar(""), core.HaltTimelineChanged)
}

// stopsWithoutStandby: the walsender waits for a standby that is away, says so, and ends
// with an error when the server stops. None of it is a reason to halt.
func stopsWithoutStandby(s *scene) {
	s.own().base()
	standby := s.syncs()
	s.source.Exec(s.T, "ALTER SYSTEM SET synchronized_standby_slots = 'standby'", "SELECT pg_reload_conf()")
	s.startSink("")
	sidecar := s.startSidecar("")
	s.streaming()
	require.NoError(s.T, standby.Stop())
	s.write()
	s.until("the walsender waits", func() bool { return strings.Contains(s.logOf(s.server), "does not have active_pid") })
	s.seen("standby away")
	for range 2 {
		require.NoError(s.T, syscall.Kill(s.server.PID(), syscall.SIGINT))
		s.until("the server stops", func() bool { return !s.server.Running() })
		require.NoError(s.T, s.server.Restart(s.ctx))
		s.streaming()
		require.False(s.T, s.there(s.tx))
	}
	require.NoError(s.T, standby.Restart(s.ctx))
	s.write()
	s.judge(0, 0)
	require.Empty(s.T, sidecar.halt())
}
