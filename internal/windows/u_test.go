package windows

import (
	"fmt"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

const exact = "LOSS DUP0 ORD ATOM ACK MONO VAL"

func init() { add(anyMajor, casesSource) }

// casesSource are the rows of source and stream.
var casesSource = []window{
	{"U1", 1, "SC, P read.change=kill@1", exact, sidecarKilled(failpoint.ReadChange, 1)},
	{"U1", 1, "SC, P read.change=kill@7", exact, sidecarKilled(failpoint.ReadChange, 7)},
	{"U1", 1, "SC, P large.part=kill@1", exact, largeKilled(failpoint.LargePart, 1)},
	{"U1", 1, "SC, P large.part=kill@2", exact, largeKilled(failpoint.LargePart, 2)},
	{"U1", 1, "SC, P read.change=kill@1, streamed", exact, streamedKilled(1)},
	{"U1", 1, "SC, P read.change=kill@1500, streamed", exact, streamedKilled(1500)},
	{"U1", 1, "SC, P read.change=kill@7, sidecar's store", again, libSidecar(failpoint.ReadChange, 7, 1, 1)},
	{"U1", 1, "SC, P read.change=kill@14, 5 a write", againN, libSidecar(failpoint.ReadChange, 14, 5, 5)},
	{"U2", 1, "SC, P read.commit=kill@1", exact, sidecarKilled(failpoint.ReadCommit, 1)},
	{"U2", 1, "SC, P read.commit=kill@4", exact, sidecarKilled(failpoint.ReadCommit, 4)},
	{"U2", 1, "SC, P read.commit=kill@1, sidecar's store", again, libSidecar(failpoint.ReadCommit, 1, 1, 1)},
	{"U2", 1, "SC, P read.commit=kill@4, 5 a write", againN, libSidecar(failpoint.ReadCommit, 4, 5, 5)},
	{"U4", 1, "UP, Q pg_terminate_backend, 1 read", exact, walsenderTerminated(1)},
	{"U4", 1, "UP, Q pg_terminate_backend, 3000 read", exact, walsenderTerminated(3000)},
	{"U5", 1, "UP, S SIGKILL behind status.after@1", exact, sourceKilled(1)},
	{"U5", 1, "UP, S SIGKILL behind status.after@3", exact, sourceKilled(3)},
	{"U5", 2, "UP, S SIGINT and start", exact, sourceRestarted},
	{"U6", 1, "SK, S SIGSTOP for 2.5 sender timeouts", exact + " no reconnect", sinkFrozen},
	{"U7", 1, "SC, P idle.stored=kill@1", exact + " no halt", idleKilled(failpoint.IdleStored, 1)},
	{"U7", 1, "SC, P idle.stored=kill@2", exact + " no halt", idleKilled(failpoint.IdleStored, 2)},
	{"U7", 2, "SC, P idle.told=kill@1", exact + " no halt", idleKilled(failpoint.IdleTold, 1)},
	{"U7", 2, "SC, P idle.told=kill@2", exact + " no halt", idleKilled(failpoint.IdleTold, 2)},
	{"U9", 1, "UP, Q pg_replication_slot_advance", "HALT(slot_ahead) twice", slotAdvanced("both", false)},
	{"U12", 1, "SC twice", exact + " FENCE", twoSidecars},
	{"U13", 1, "UP, Q PREPARE TRANSACTION", exact + " nothing before", preparedTransaction},
	{"U20", 1, "SC, S a hundred SIGTERM", "no halt, nothing sent again", hundredStops},
	{"U21", 1, "UP, Q advance, with idle steps before", "HALT(slot_ahead) twice", slotAdvanced("both", true)},
	{"U21", 1, "UP, Q advance, an append log", "HALT(slot_ahead) twice", slotAdvanced("log", false)},
	{"U21", 1, "UP, Q advance, an append log, idle before", "HALT(slot_ahead) twice", slotAdvanced("log", true)},
}

// largeKilled has a transaction above the sink's request size in pieces.
func largeKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.env = append(s.env, "TESTSINK_REQUEST_BYTES=65536")
		s.base()
		s.write()
		s.commit(300, s.rows(300, 2000))
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.killed(sidecar, point)
		s.write()
		s.startSidecar("")
		s.judge(0, 0)
	}
}

// streamedKilled kills inside a transaction that comes before its commit.
func streamedKilled(ordinal int) func(*scene) {
	return func(s *scene) {
		s.streamed().base()
		s.startSink("")
		conn := s.session()
		s.do(conn, "BEGIN; "+s.rows(3000, 200)+"; "+s.line(3000))
		sidecar := s.startSidecar(fmt.Sprintf("read.change=kill@%d", ordinal))
		s.killed(sidecar, failpoint.ReadChange)
		require.Equal(s.T, "0", s.ask(s.source.DSN, "SELECT count(*)::text FROM ledger WHERE tx = $1::text::int", fmt.Sprint(s.tx)), "it had committed")
		s.do(conn, "COMMIT")
		s.startSidecar("")
		s.judge(0, 0)
	}
}

// walsenderTerminated ends the walsender while the reader stands inside a transaction
// that is larger than all buffers between them.
func walsenderTerminated(read int) func(*scene) {
	return func(s *scene) {
		s.base()
		s.commit(9000, s.rows(9000, 2000))
		s.startSink("")
		gate := s.gate()
		sidecar := s.startSidecar(fmt.Sprintf("read.change=block:%s@%d", gate, read))
		s.witnessed(sidecar, failpoint.ReadChange, "block")
		holder := s.holder()
		require.Equal(s.T, "true", s.ask(s.source.DSN, "SELECT pg_terminate_backend($1::text::int)::text", holder))
		require.Equal(s.T, holder, s.holder(), "it waits for the reader, with the rest of the transaction")
		s.release(gate)
		s.until("the walsender is gone", func() bool { now := s.holder(); return now != "" && now != holder })
		s.seen("walsender %s ended", holder)
		s.write()
		s.judge(0, 0)
	}
}

// sourceKilled kills the server right behind a status that told a position. The slot comes
// back behind what it was told: it had been saved when it was made.
func sourceKilled(ordinal int) func(*scene) {
	return func(s *scene) {
		s.own().base()
		s.startSink("")
		gate := s.gate()
		s.write() // before the start: an idle step would pass the point too
		sidecar := s.startSidecar(fmt.Sprintf("status.after=block:%s@%d", gate, ordinal))
		for n := 1; n < ordinal; n++ {
			s.arrived()
			s.until("it is told", func() bool { return s.toldAll() })
			s.write()
		}
		s.witnessed(sidecar, failpoint.StatusAfter, "block")
		s.until("the server has taken it", func() bool { return s.toldAll() })
		told, pid := s.confirmed(), s.server.PID()
		require.NoError(s.T, s.server.Kill())
		require.ErrorIs(s.T, syscall.Kill(pid, 0), syscall.ESRCH)
		require.NoError(s.T, s.server.Restart(s.ctx))
		back := s.confirmed()
		require.Equal(s.T, "true", s.ask(s.source.DSN, "SELECT ($1::text::pg_lsn < $2::text::pg_lsn)::text", back, told), "the slot is at %s, it was told %s", back, told)
		s.seen("postmaster %d killed, slot back from %s to %s", pid, told, back)
		s.release(gate)
		s.write()
		s.judge(0, 0)
	}
}

// sourceRestarted is a fast stop and a start, under a sidecar that is busy, twice. Whether
// the slot comes back behind what it was told is a matter of the major.
func sourceRestarted(s *scene) {
	s.own().up()
	for range 2 {
		s.writeMany(3)
		s.arrived()
		s.until("it is told", func() bool { return s.toldAll() })
		told, pid := s.confirmed(), s.server.PID()
		require.NoError(s.T, s.server.Stop())
		require.NoError(s.T, s.server.Restart(s.ctx))
		s.seen("postmaster %d stopped at %s, slot at %s", pid, told, s.confirmed())
		s.write()
		s.arrived()
	}
	s.judge(0, 0)
}

// sinkFrozen freezes the sink with a call in flight.
func sinkFrozen(s *scene) {
	s.args = append(s.args, "--sender-timeout", "2s")
	sink, _ := s.up()
	s.until("it is told", func() bool { return s.toldAll() })
	holder := s.holder()
	require.NoError(s.T, sink.Signal(syscall.SIGSTOP))
	s.writeMany(5)
	before := s.confirmed()
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(100 * time.Millisecond) {
		require.Equal(s.T, holder, s.holder(), "it was thrown out")
		require.Equal(s.T, before, s.confirmed(), "something was confirmed")
	}
	s.seen("sink %d frozen 5s, walsender %s stays", sink.PID(), holder)
	require.NoError(s.T, sink.Signal(syscall.SIGCONT))
	s.judge(0, 0)
	require.Equal(s.T, holder, s.holder())
}

// confirmed is what the slot was told.
func (s *scene) confirmed() string {
	return s.ask(s.slotAt(), "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.slot)
}

// filtered writes WAL that holds nothing for us.
func (s *scene) filtered() {
	s.Helper()
	s.source.Exec(s.T, "INSERT INTO plain SELECT generate_series(1, 100)")
}

// idleKilled kills at an idle step. The slot's claim must not lead the checkpoint, and the
// next start must not halt.
func idleKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.args = append(s.args, "--sender-timeout", "1s")
		s.base()
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, ordinal))
		for {
			s.filtered()
			if _, err := sidecar.Wait(300 * time.Millisecond); err == nil {
				break
			}
			require.NoError(s.T, s.ctx.Err())
		}
		s.killed(sidecar, point)
		s.write()
		next := s.startSidecar("")
		s.judge(0, 0)
		require.Empty(s.T, next.halt())
	}
}

// slotAdvanced moves the slot behind our back while we are down.
func slotAdvanced(kind string, idle bool) func(*scene) {
	return func(s *scene) {
		s.kind = kind
		s.args = append(s.args, "--sender-timeout", "1s")
		s.base()
		s.startSink("")
		if idle {
			sidecar := s.startSidecar("idle.told=delay:1ms")
			s.filtered()
			s.witnessed(sidecar, failpoint.IdleTold, "delay")
			s.stop(sidecar)
		}
		s.sampled() // what follows is what ACK forbids
		s.write()
		s.filtered()
		s.source.Exec(s.T, "SELECT pg_replication_slot_advance('"+s.slot+"', pg_current_wal_lsn())")
		s.halts(s.startSidecar(""), core.HaltSlotAhead)
	}
}

// twoSidecars: the second waits while the first works, and takes over when it is gone.
func twoSidecars(s *scene) {
	_, first := s.up()
	second := s.startSidecar("")
	s.until("the second waits", func() bool { return second.waits("standby") })
	epoch := s.ask(s.sink.DSN, "SELECT epoch::text FROM testsink.stream WHERE stream = $1", s.slot)
	holder := s.holder()
	s.writeMany(5)
	s.arrived()
	time.Sleep(1500 * time.Millisecond) // past an attempt of the second
	require.Equal(s.T, epoch, s.ask(s.sink.DSN, "SELECT epoch::text FROM testsink.stream WHERE stream = $1", s.slot))
	require.Equal(s.T, holder, s.holder())
	s.seen("standby, epoch %s stays", epoch)
	s.kill(first)
	s.write()
	s.judge(0, 0)
	s.seen("epoch %s", s.ask(s.sink.DSN, "SELECT epoch::text FROM testsink.stream WHERE stream = $1", s.slot))
	require.Empty(s.T, second.halt())
}

// preparedTransaction: nothing before COMMIT PREPARED, then once.
func preparedTransaction(s *scene) {
	s.up()
	conn := s.session()
	line := s.line(2)
	prepared := s.tx
	s.do(conn, "BEGIN; INSERT INTO t VALUES (1, 'p'), (2, 'p'); "+line+"; PREPARE TRANSACTION 'w"+s.slot+"'")
	s.shard++
	s.tx = 0
	s.writeMany(2)
	s.arrived()
	s.shard--
	require.False(s.T, s.there(prepared), "it was told before it was committed")
	s.seen("prepared, others pass")
	s.do(conn, "COMMIT PREPARED 'w"+s.slot+"'")
	s.tx = prepared
	s.judge(0, 0)
}

// hundredStops are fifty idle and fifty busy ones. In lib mode all that is sent again
// would stand in the log again.
func hundredStops(s *scene) {
	s.long(4 * limit).lib(1).base()
	s.startSink("")
	var drained *sidecar // a signal that comes before the first turn of the loop finds nothing to drain
	for n := range 100 {
		if n >= 50 {
			s.writeMany(3)
		}
		sidecar := s.startSidecar("drain.begin=delay:1ms;drain.end=delay:1ms")
		s.until("it streams", func() bool { return sidecar.streams() })
		s.stop(sidecar)
		if s.passages(sidecar, failpoint.DrainEnd) > 0 {
			drained = sidecar
		}
	}
	require.NotNil(s.T, drained)
	s.witnessed(drained, failpoint.DrainBegin, "delay")
	s.witnessed(drained, failpoint.DrainEnd, "delay")
	s.startSidecar("")
	s.write()
	s.judge(0, 0)
}
