package windows

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func init() { add(16, casesReads) }

// casesReads read the stream from a standby, which 16 is the first to allow.
var casesReads = []window{
	{"U25", 1, "UP, S SIGKILL of the standby", exact + " no halt", standbyKilled},
	{"U25", 2, "UP, Q recovery_min_apply_delay", exact + " no halt", standbyLate},
	{"U25", 3, "UP, S SIGKILL of the primary, promotion", "HALT(source_timeline_changed) twice, then " + exact, standbyPromoted},
	{"U25", 4, "SC, P deliver.after=kill@1", exact, standbySidecarKilled(1)},
	{"U25", 4, "SC, P deliver.after=kill@3", exact, standbySidecarKilled(3)},
}

// standby makes the source and a standby of it, from which the sidecar reads.
func (s *scene) standby() *pgtest.Server {
	s.Helper()
	s.own().make()
	standby := s.follower(map[string]string{"hot_standby_feedback": "on"})
	s.caughtUp(standby)
	s.reads = s.at(standby)
	s.from = s.reads.DSN
	return standby
}

// begun starts both, gives the slot its base and delivers one transaction. A standby
// cannot make a slot by itself: the primary has to say which transactions are running.
func (s *scene) begun() (*sinkProcess, *sidecar) {
	s.Helper()
	sink := s.startSink("")
	sidecar := s.startSidecar("")
	s.until("the stream has a base", func() bool {
		s.source.Exec(s.T, "SELECT pg_log_standby_snapshot()")
		at, err := s.durable()(s.ctx)
		return err == nil && at != 0
	})
	s.streaming()
	s.watch()
	s.write()
	s.arrived()
	require.Equal(s.T, "true", s.ask(s.slotAt(), "SELECT pg_is_in_recovery()::text"))
	return sink, sidecar
}

// standbyKilled kills the standby under a sidecar that is busy, twice.
func standbyKilled(s *scene) {
	standby := s.standby()
	_, sidecar := s.begun()
	for range 2 {
		s.writeMany(3)
		s.seen("standby %d killed", standby.PID())
		require.NoError(s.T, standby.Kill())
		s.writeMany(2)
		require.NoError(s.T, standby.Restart(s.ctx))
		s.write()
		s.arrived()
	}
	s.judge(0, 0)
	require.Empty(s.T, sidecar.halt())
}

// standbyLate starts the standby so that it has not yet replayed what it had sent: its WAL
// ends below the checkpoint for a while, and nothing is lost.
func standbyLate(s *scene) {
	standby := s.standby()
	_, sidecar := s.begun()
	s.source.Exec(s.T, "CHECKPOINT")
	s.writeMany(20)
	s.arrived()
	s.until("it is told", func() bool { return s.toldAll() })
	at := s.confirmed()
	admin := &pgtest.DB{Server: standby, Name: "postgres"}
	admin.Exec(s.T, "ALTER SYSTEM SET recovery_min_apply_delay = '1h'")
	require.NoError(s.T, standby.Kill())
	require.NoError(s.T, standby.Restart(s.ctx))
	replayed := s.ask(s.slotAt(), "SELECT pg_last_wal_replay_lsn()::text")
	require.Equal(s.T, "true", s.ask(s.slotAt(), "SELECT ($1::text::pg_lsn > pg_last_wal_replay_lsn())::text", at), "it has replayed all")
	s.seen("replayed %s, checkpoint %s", replayed, at)
	s.until("it was looked at", func() bool {
		return sidecar.halt() != "" || strings.Contains(sidecar.said(), "has replayed")
	})
	require.Empty(s.T, sidecar.halt())
	admin.Exec(s.T, "ALTER SYSTEM RESET recovery_min_apply_delay", "SELECT pg_reload_conf()")
	s.write()
	s.judge(0, 0)
	require.Empty(s.T, sidecar.halt())
}

// standbyPromoted: the slot is the standby's own, so nothing but the operator's word says
// that the new timeline goes on where the old one was read.
func standbyPromoted(s *scene) {
	standby := s.standby()
	_, sidecar := s.begun()
	s.writeMany(3)
	s.arrived()
	s.kill(sidecar)
	s.caughtUp(standby)
	s.promoted(standby)
	s.write()
	s.halts(s.startSidecar(""), core.HaltTimelineChanged)
	s.startSidecar("", "--accept-timeline", "2")
	s.write()
	s.judge(0, 0)
}

func standbySidecarKilled(ordinal int) func(*scene) {
	return func(s *scene) {
		s.standby()
		_, sidecar := s.begun()
		s.stop(sidecar)
		s.writeMany(ordinal + 1)
		sidecar = s.startSidecar("deliver.after=kill@" + string(rune('0'+ordinal)))
		s.killed(sidecar, failpoint.DeliverAfter)
		s.write()
		s.startSidecar("")
		s.judge(0, 0)
	}
}
