package windows

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/crash"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func init() { add(anyMajor, casesStoreServer) }

// casesStoreServer are the rows of the store's own server, and of the fence in the sink's
// memory.
var casesStoreServer = []window{
	{"L3", 0, "ST, X pwrite64 of the row's commit, first", again, rowWriteKilled(1, 1, "pwrite64", 1)},
	{"L3", 0, "ST, X pwrite64 of the row's commit, third", again, rowWriteKilled(3, 1, "pwrite64", 1)},
	{"L3", 0, "ST, X fdatasync of the row's commit, first", exact, rowWriteKilled(1, 2, "fdatasync", 0)},
	{"L3", 0, "ST, X fdatasync of the row's commit, third", exact, rowWriteKilled(3, 2, "fdatasync", 0)},
	{"L5", 1, "ST, S stopped before the start", "HALT(store_unavailable) twice, " + again, storeAway(true)},
	{"L5", 2, "ST, S stopped in the middle", "HALT(store_unavailable) twice, " + again, storeAway(false)},
	{"L5", 3, "ST, X ENOSPC from a write on", "HALT(store_unavailable), " + again, storeDiskFull},
	{"L9", 0, "SK, S restart; SC, B call.before@1", "FENCE " + exact, sinkForgets(1)},
	{"L9", 0, "SK, S restart; SC, B call.before@3", "FENCE " + exact, sinkForgets(3)},
	{"L10", 0, "SK, B sink.call@1, T cut", "STALE_DELIVERY " + exact, staleHandler(1)},
	{"L10", 0, "SK, B sink.call@3, T cut", "STALE_DELIVERY " + exact, staleHandler(3)},
	{"L11", 0, "ST, T held in a proxy", "MONO FENCE " + again, lateRowWrite},
}

// storeBackend is the sidecar's session at the store.
func (s *scene) storeBackend() int {
	s.Helper()
	var pid int
	s.until("the sidecar's session at the store is there", func() bool {
		text := s.ask(s.store.DSN, `SELECT pid::text FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
AND application_name LIKE 'replicant%' ORDER BY backend_start DESC LIMIT 1`)
		pid, _ = strconv.Atoi(text)
		return pid != 0
	})
	return pid
}

// rowWriteKilled kills the store's backend at the n-th storage call of the row's commit,
// and the sidecar with it.
func rowWriteKilled(passage, n int, call string, repeats int) func(*scene) {
	return func(s *scene) {
		server, supervised := s.underEye()
		s.lib(1)
		s.store = s.database(server)
		s.keep = s.store.DSN
		s.base()
		run := supervised()
		s.startSink("")
		s.writeMany(3)
		target := s.tx - 3 + passage
		points, gates := s.holds(failpoint.StoreBefore)
		sidecar := s.startSidecar(points)
		gate := s.heldAt(sidecar, failpoint.StoreBefore, gates, func() bool { return s.there(target) })
		pid := s.storeBackend()
		resume := s.alone(server)
		run.Arm(crash.Shot{Select: func(p crash.Process) bool {
			if p.PID() != pid {
				return false
			}
			_ = sidecar.Signal(syscall.SIGSTOP) // or it writes again when the store is back
			return true
		}, At: n, Action: crash.KillProcess})
		s.release(gate)
		select {
		case <-run.Hit():
		case <-s.ctx.Done():
			resume()
			require.FailNow(s.T, "the row's write made no such call")
		}
		resume()
		s.kill(sidecar)
		hit := run.Last()
		require.Equal(s.T, call, hit.Syscall)
		s.seen("%s of %d", hit.Syscall, hit.PID)
		run.Arm(crash.Shot{})
		s.until("the store has recovered", func() bool {
			return strings.Count(s.logOf(server), "all server processes terminated") == 1 && s.ask(s.store.DSN, "SELECT 'up'") == "up"
		})
		s.startSidecar("")
		s.write() // behind what comes again, which is there already
		report := s.judge(min(repeats, 1), repeats)
		require.Len(s.T, report.Repeats, repeats, "the row was written, or not")
		s.seen("again %v", report.Repeats)
	}
}

// storeAway stops the store before a start, or while it streams.
func storeAway(atStart bool) func(*scene) {
	return func(s *scene) {
		s.lib(1)
		server := pgtest.Own(s.T, s.major, pgembed.Options{})
		s.store = server.Database(s.T)
		s.keep = s.store.DSN
		s.args = append(s.args, "--checkpoint-store-wait", "2s")
		s.base()
		s.startSink("")
		var sidecar *sidecar
		if !atStart {
			sidecar = s.startSidecar("")
			s.write()
			s.arrived()
			s.until("it is told", func() bool { return s.toldAll() })
		}
		require.NoError(s.T, server.Stop())
		before := s.confirmed()
		s.writeMany(2)
		if atStart {
			sidecar = s.startSidecar("")
		}
		s.halted(sidecar, core.HaltStoreUnavailable)
		require.Equal(s.T, before, s.confirmed())
		s.halted(s.startSidecar(""), core.HaltStoreUnavailable)
		require.Equal(s.T, before, s.confirmed())
		require.NoError(s.T, server.Restart(s.ctx))
		s.startSidecar("")
		s.write()
		s.seen("again %v", s.judge(1, 1).Repeats)
	}
}

// storeDiskFull lets every write of the store's backends fail.
func storeDiskFull(s *scene) {
	server, supervised := s.underEye()
	s.lib(1)
	s.store = s.database(server)
	s.keep = s.store.DSN
	s.args = append(s.args, "--checkpoint-store-wait", "3s")
	s.base()
	run := supervised()
	s.startSink("")
	sidecar := s.startSidecar("")
	s.write()
	s.arrived()
	s.until("it is told", func() bool { return s.toldAll() })
	run.Arm(crash.Shot{Classes: crash.Write | crash.Resize, Select: func(p crash.Process) bool {
		return strings.Contains(p.Title(), " sink ")
	}, At: 1, Action: crash.DiskStaysFull})
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("the store's server said: %s", s.logOf(server))
		}
	})
	s.write()
	s.halted(sidecar, core.HaltStoreUnavailable)
	told := s.confirmed()
	require.NotNil(s.T, run.Last())
	s.seen("%s of %d: ENOSPC", run.Last().Syscall, run.Last().PID)
	run.Arm(crash.Shot{})
	s.until("the store has recovered", func() bool { return s.ask(s.store.DSN, "SELECT 'up'") == "up" })
	// Another process of the store's may have written the WAL of a first commit.
	require.Equal(s.T, "stored", s.ask(s.store.DSN, fmt.Sprintf(
		"SELECT CASE WHEN max(pos)::pg_lsn >= '%s' THEN 'stored' ELSE 'told too early' END FROM replicant_checkpoints", told)))
	s.startSidecar("")
	s.write()
	s.seen("again %v", s.judge(1, 1).Repeats)
}

// sinkForgets: a sink without memory is met by an overtaken owner first.
func sinkForgets(ordinal int) func(*scene) {
	return func(s *scene) {
		s.lib(1).base()
		sink := s.startSink("")
		gate := s.gate()
		s.writeMany(3)
		first := s.startSidecar(fmt.Sprintf("call.before=block:%s@%d", gate, ordinal))
		s.witnessed(first, failpoint.CallBefore, "block")
		second := s.startSidecar("")
		s.thrownOff(second)
		s.arrived()
		s.until("it is told", func() bool { return s.toldAll() })
		s.end(sink)
		s.startSink("")
		s.release(gate)
		s.halted(first, core.HaltFenced)
		s.writeMany(2)
		s.judge(0, 0)
		require.Empty(s.T, second.halt())
	}
}

// staleHandler holds a handler, loses its connection, and lets it run when the repeat has
// been stored.
func staleHandler(ordinal int) func(*scene) {
	return func(s *scene) {
		s.lib(1).base()
		p, behind := s.sinkProxyAt()
		gate := s.gate()
		sink := s.startSinkAt(behind, fmt.Sprintf("sink.call=block:%s@%d", gate, ordinal))
		s.writeMany(ordinal)
		s.startSidecar("")
		s.witnessed(sink, failpoint.SinkCall, "block")
		s.seen("%d connections cut", p.cutAll())
		s.arrived()
		s.until("it is told", func() bool { return s.toldAll() })
		s.release(gate)
		time.Sleep(200 * time.Millisecond) // the late handler runs, and would be in the log
		s.write()
		s.judge(0, 0)
	}
}

// lateRowWrite holds the write of a row in the network until a successor has moved on.
func lateRowWrite(s *scene) {
	s.lib(1).base()
	s.startSink("")
	p, dsn := s.postgres(s.store.DSN, nil)
	direct := s.keep
	s.keep = dsn
	first := s.startSidecar("")
	s.until("it streams", func() bool { return first.streams() })
	s.write()
	s.until("it is told", func() bool { return s.there(s.tx) && s.toldAll() })
	p.hold()
	s.write()
	s.arrived()
	s.keep = direct
	second := s.startSidecar("")
	s.thrownOff(second)
	s.write()
	s.until("it is told", func() bool { return s.there(s.tx) && s.toldAll() })
	before, err := s.durable()(s.ctx)
	require.NoError(s.T, err)
	p.release()
	s.until("the first gives way", func() bool {
		_, err := first.Wait(time.Millisecond)
		return err == nil || first.waits("standby")
	})
	after, err := s.durable()(s.ctx)
	require.NoError(s.T, err)
	require.GreaterOrEqual(s.T, after, before)
	s.seen("held, then first: %s", first.fate())
	s.write()
	s.seen("again %v", s.judge(1, 1).Repeats)
	require.Empty(s.T, second.halt())
}
