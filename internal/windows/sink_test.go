package windows

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/crash"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// underEye makes a durable server and starts it again under supervision.
func (s *scene) underEye() (*pgtest.Server, func() *crash.Run) {
	s.Helper()
	server := pgtest.Own(s.T, s.major, pgembed.Options{Durable: true, Settings: map[string]string{
		"autovacuum": "off", "wal_sync_method": "fdatasync", "wal_writer_delay": "10s", "bgwriter_lru_maxpages": "0",
		"recovery_init_sync_method": "syncfs", "checkpoint_timeout": "1h",
	}})
	return server, func() *crash.Run {
		require.NoError(s.T, server.Stop())
		st, err := os.Stat(server.DataDir())
		require.NoError(s.T, err)
		owner := st.Sys().(*syscall.Stat_t)
		log, err := os.OpenFile(server.LogPath(), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(s.T, err)
		defer log.Close()
		o := crash.Options{
			Args: []string{server.Bin().Path("postgres"), "-D", server.DataDir()},
			Env:  []string{"LC_ALL=C", "TZ=UTC"}, Dir: server.Dir(), Stdout: log, Stderr: log,
		}
		if os.Getuid() == 0 {
			o.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
		}
		r, err := crash.Start(s.T.Context(), o)
		require.NoError(s.T, err)
		s.Cleanup(func() {
			r.Arm(crash.Shot{})
			_ = r.Signal(syscall.SIGQUIT)
			_, err := r.Wait()
			require.NoError(s.T, err)
		})
		s.until("the server takes connections", func() bool { return s.ask(server.DSN("postgres"), "SELECT 'up'") == "up" })
		return r
	}
}

// alone freezes whatever else writes WAL at a server under supervision: another process
// might flush the commit that is to be hit. The returned function lets it go on.
func (s *scene) alone(server *pgtest.Server) func() {
	s.Helper()
	pids := strings.Fields(s.ask(server.DSN("postgres"), `SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
WHERE backend_type IN ('walwriter', 'background writer', 'checkpointer')`))
	require.Len(s.T, pids, 3)
	signal := func(sig syscall.Signal) {
		for _, text := range pids {
			pid, err := strconv.Atoi(text)
			require.NoError(s.T, err)
			_ = syscall.Kill(pid, sig)
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// rowsHeld reports that the sink's open transaction holds more than its stream's row.
func (s *scene) rowsHeld() bool {
	return s.ask(s.sink.DSN, `SELECT count(*)::text FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE a.application_name LIKE 'testsink %' AND a.state = 'idle in transaction' AND l.mode = 'RowExclusiveLock'
AND l.relation = 'testsink.log'::regclass`) == "1"
}

// backend is the sink's session that is inside a transaction.
func (s *scene) backend() int {
	s.Helper()
	var pid int
	s.until("the sink's transaction is open", func() bool {
		text := s.ask(s.sink.DSN, `SELECT pid::text FROM pg_stat_activity WHERE datname = current_database()
AND application_name LIKE 'testsink %' AND state = 'idle in transaction'`)
		pid, _ = strconv.Atoi(text)
		return pid != 0
	})
	return pid
}

// database makes one on a server that is not stopped through its own methods.
func (s *scene) database(server *pgtest.Server) *pgtest.DB {
	s.Helper()
	db := &pgtest.DB{Server: server, Name: "sink", DSN: server.DSN("sink")}
	(&pgtest.DB{Server: server, Name: "postgres", DSN: server.DSN("postgres")}).Exec(s.T, "CREATE DATABASE sink")
	return db
}

// commitKilled kills the backend of the destination at the n-th storage call of its
// commit. The sidecar is frozen meanwhile, so that what is there was there before.
func commitKilled(passage, n int, call string, visible bool) func(*scene) {
	return func(s *scene) {
		server, supervised := s.underEye()
		s.sink = s.database(server)
		s.base()
		run := supervised()
		points, gates := s.holds(failpoint.SinkCheckpoint)
		sink := s.startSink(points)
		s.writeMany(passage)
		sidecar := s.startSidecar("")
		// What is held has not committed, so the one before it is the last that is there.
		gate := s.heldAt(sink, failpoint.SinkCheckpoint, gates, func() bool { return s.there(s.tx-1) && s.rowsHeld() })
		pid := s.backend()
		require.NoError(s.T, sidecar.Signal(syscall.SIGSTOP))
		resume := s.alone(server)
		run.Arm(crash.Shot{Select: crash.ByPID(pid), At: n, Action: crash.KillProcess})
		s.release(gate)
		select {
		case <-run.Hit():
		case <-s.ctx.Done():
			resume()
			require.FailNow(s.T, "the commit made no such call")
		}
		resume()
		for _, gate := range gates {
			s.release(gate)
		}
		hit := run.Last()
		require.Equal(s.T, call, hit.Syscall)
		require.Equal(s.T, pid, hit.PID)
		s.seen("%s of %d %q", hit.Syscall, hit.PID, lastWord(hit.Title))
		run.Arm(crash.Shot{})
		s.until("the server has recovered", func() bool {
			return strings.Contains(s.logOf(server), "database system is ready") && s.ask(s.sink.DSN, "SELECT 'up'") == "up" &&
				strings.Count(s.logOf(server), "all server processes terminated") == 1
		})
		require.Equal(s.T, visible, s.there(s.tx), "transaction %d", s.tx)
		s.seen("visible=%t", visible)
		require.NoError(s.T, sidecar.Signal(syscall.SIGCONT))
		s.write()
		s.judge(0, 0)
	}
}

func (s *scene) logOf(server *pgtest.Server) string {
	text, err := os.ReadFile(server.LogPath())
	require.NoError(s.T, err)
	return string(text)
}

func lastWord(text string) string {
	words := strings.Fields(text)
	return words[len(words)-1]
}

// replyLost cuts the connection while the sink has committed and not answered.
func replyLost(ordinal int) func(*scene) {
	return func(s *scene) {
		s.base()
		p, behind := s.sinkProxyAt()
		gate := s.gate()
		sink := s.startSinkAt(behind, fmt.Sprintf("sink.committed=block:%s@%d", gate, ordinal))
		s.writeMany(ordinal + 1)
		s.startSidecar("")
		s.witnessed(sink, failpoint.SinkCommitted, "block")
		n := p.cutAll()
		require.Positive(s.T, n)
		s.seen("%d connections cut", n)
		s.release(gate)
		s.judge(0, 0)
	}
}

// sinkProxyAt stands before the sink at a new address.
func (s *scene) sinkProxyAt() (*proxy, string) {
	s.Helper()
	s.address = "unix:" + filepath.Join(s.dir, "before")
	return s.sinkProxy()
}

// deliveredTwice holds a handler, kills the sidecar, and lets the next one send the same.
func deliveredTwice(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.base()
		gate := s.gate()
		sink := s.startSink(fmt.Sprintf("%s=block:%s@%d", point, gate, ordinal))
		s.write()
		first := s.startSidecar("")
		s.witnessed(sink, point, "block")
		s.kill(first)
		second := s.startSidecar("")
		if point == failpoint.SinkCall {
			s.arrived() // the second is done before the first has begun
		} else {
			s.until("the second's claim waits for the row", func() bool {
				return s.ask(s.sink.DSN, "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") != "0"
			})
			s.seen("the second waits")
		}
		s.release(gate)
		s.write()
		s.judge(0, 0)
		require.Empty(s.T, second.halt())
	}
}

// frozenBefore freezes an owner before it calls; a second one takes over and moves on.
func frozenBefore(ordinal int) func(*scene) {
	return func(s *scene) {
		s.args = append(s.args, "--sender-timeout", "2s")
		s.base()
		s.startSink("")
		gate := s.gate()
		s.writeMany(ordinal)
		first := s.startSidecar(fmt.Sprintf("call.before=block:%s@%d", gate, ordinal))
		s.witnessed(first, failpoint.CallBefore, "block")
		holder := s.holder()
		require.NoError(s.T, first.Signal(syscall.SIGSTOP))
		second := s.startSidecar("")
		s.until("the second takes over", func() bool { now := s.holder(); return now != "" && now != holder && second.streams() })
		s.write()
		s.arrived()
		s.release(gate)
		require.NoError(s.T, first.Signal(syscall.SIGCONT))
		s.until("the first gives way", func() bool {
			_, err := first.Wait(time.Millisecond)
			return err == nil || first.waits("standby")
		})
		s.seen("first: %s", first.fate())
		s.write()
		s.judge(0, 0)
		require.Empty(s.T, second.halt())
	}
}

// commitFrozen freezes the backend behind the sink at its COMMIT until the call's
// deadline has passed, and lets it go.
func commitFrozen(s *scene) {
	s.long(3 * limit).base()
	gate := s.gate()
	sink := s.startSink("sink.checkpoint=block:" + gate)
	s.write()
	sidecar := s.startSidecar("")
	s.witnessed(sink, failpoint.SinkCheckpoint, "block")
	pid := s.backend()
	require.NoError(s.T, syscall.Kill(pid, syscall.SIGSTOP))
	s.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	s.release(gate)
	began := time.Now()
	s.until("the deadline passes", func() bool { return sidecar.waits("sink_unavailable") })
	s.seen("backend %d frozen, given up after %v", pid, time.Since(began).Round(time.Second))
	before := s.confirmed()
	require.False(s.T, s.there(s.tx))
	require.NoError(s.T, syscall.Kill(pid, syscall.SIGCONT))
	s.arrived()
	s.write()
	s.judge(0, 0)
	require.NotEqual(s.T, before, s.confirmed())
}

// sinkDiskFull lets every write of the destination's backends fail.
func sinkDiskFull(s *scene) {
	server, supervised := s.underEye()
	s.sink = s.database(server)
	s.base()
	run := supervised()
	s.startSink("")
	s.startSidecar("")
	s.write()
	s.arrived()
	s.until("all is told", func() bool { return s.toldAll() })
	run.Arm(crash.Shot{Classes: crash.Write | crash.Resize, Select: func(p crash.Process) bool {
		return strings.Contains(p.Title(), " sink ")
	}, At: 1, Action: crash.DiskStaysFull})
	before := s.confirmed()
	s.commit(3000, s.rows(3000, 1000))
	select {
	case <-run.Hit():
	case <-s.ctx.Done():
		require.FailNow(s.T, "nothing was written")
	}
	hit := run.Last()
	s.seen("%s of %d: ENOSPC", hit.Syscall, hit.PID)
	time.Sleep(time.Second) // some tries
	require.Equal(s.T, before, s.confirmed())
	run.Arm(crash.Shot{})
	s.write()
	s.judge(0, 0)
}

// copyDiskFull is sinkDiskFull under a copy, of either kind: it goes on with the unit that
// was refused, once there is room.
func copyDiskFull(kind string) func(*scene) {
	return func(s *scene) {
		s.long(2 * limit)
		server, supervised := s.underEye()
		s.sink = s.database(server)
		if kind == "initial" {
			s.copies()
		} else {
			s.beside()
		}
		run := supervised()
		s.startSink("")
		run.Arm(crash.Shot{Classes: crash.Write | crash.Resize, Select: func(p crash.Process) bool {
			return strings.Contains(p.Title(), " sink ")
		}, At: 20, Action: crash.DiskStaysFull})
		sidecar := s.startSidecar("")
		select {
		case <-run.Hit():
		case <-s.ctx.Done():
			require.FailNow(s.T, "nothing was written")
		}
		hit := run.Last()
		s.seen("%s of %d: ENOSPC", hit.Syscall, hit.PID)
		s.write()
		time.Sleep(time.Second) // some tries
		require.False(s.T, s.there(s.tx))
		require.Empty(s.T, sidecar.halt())
		run.Arm(crash.Shot{})
		if kind == "initial" {
			require.Equal(s.T, 1, runs(s.copied()), "the copy began anew")
			return
		}
		s.complete(sidecar)
		s.write()
		s.same()
	}
}
