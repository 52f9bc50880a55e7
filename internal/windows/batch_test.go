package windows

import (
	"fmt"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

func init() { add(anyMajor, casesBatch) }

// casesBatch are the rows of batches that are not in casesStore.
var casesBatch = []window{
	{"B4", 1, "SC, S SIGTERM, 5 a write", againN + " exit 0", stoppedInside},
	{"B4", 2, "SC, S SIGTERM twice", exact + " exit 1", stoppedTwice},
	{"B4", 3, "SC, S and P drain.begin=kill", exact, killedDraining(failpoint.DrainBegin, 0)},
	{"B4", 3, "SC, S and P drain.end=kill", exact, killedDraining(failpoint.DrainEnd, 0)},
	{"B4", 3, "SC, S and P drain.begin=kill, 5 a write", againN, killedDraining(failpoint.DrainBegin, 5)},
	{"B5", 0, "SK, P sink.row=kill@3 of a batch", exact, batchKilled("sink.row=kill@3", failpoint.SinkRow, 5)},
	{"B5", 0, "SK, P sink.row=kill@14 of a batch", exact, batchKilled("sink.row=kill@14", failpoint.SinkRow, 5)},
	{"B6", 1, "SK, P sink.committed=kill@1, then 3 a call", exact, batchKilled("sink.committed=kill@1", failpoint.SinkCommitted, 3)},
	{"B6", 1, "SK, P sink.committed=kill@2, then 3 a call", exact, batchKilled("sink.committed=kill@2", failpoint.SinkCommitted, 3)},
	{"B6", 2, "SK, B sink.committed, T cut, then 3 a call", exact, batchReplyLost},
	{"B7", 0, "UP, Q ALTER TABLE behind a blocked call", exact, borders},
	{"B8", 0, "UP, Q large; SC, P large.part=kill@1", exact, batchLarge(false, 1)},
	{"B8", 0, "UP, Q large; SC, P large.part=kill@3", exact, batchLarge(false, 3)},
	{"B8", 0, "UP, Q spilled; SC, P large.part=kill@1", exact, batchLarge(true, 1)},
	{"B8", 0, "UP, Q spilled; SC, P large.part=kill@30", exact, batchLarge(true, 30)},
	{"B9", 0, "UP, Q message; SC, P deliver.after=kill@1", exact, messageMeetsBatch("deliver.after", 1)},
	{"B9", 0, "UP, Q message; SC, P deliver.after=kill@2", exact, messageMeetsBatch("deliver.after", 2)},
	{"B9", 0, "UP, Q message; SC, P call.before=kill@2", exact, messageMeetsBatch("call.before", 2)},
	{"B9", 0, "UP, Q message; SC, P call.before=kill@3", exact, messageMeetsBatch("call.before", 3)},
	{"B9", 0, "UP, Q idle; SC, P idle.stored=kill@1", exact, idleMeetsBatch(failpoint.IdleStored, 1)},
	{"B9", 0, "UP, Q idle; SC, P idle.stored=kill@2", exact, idleMeetsBatch(failpoint.IdleStored, 2)},
	{"B9", 0, "UP, Q idle; SC, P idle.told=kill@1", exact, idleMeetsBatch(failpoint.IdleTold, 1)},
	{"B9", 0, "UP, Q idle; SC, P idle.told=kill@2", exact, idleMeetsBatch(failpoint.IdleTold, 2)},
}

// filling lets a batch wait until it is full.
func (s *scene) filling(n int) *scene {
	s.batch(n)
	s.args = append(s.args, "--delivery-max-delay", "300ms")
	return s
}

// stoppedInside stops in order while a batch is on its way.
func stoppedInside(s *scene) {
	s.lib(5).base()
	s.writeMany(12)
	sink := s.startSink("sink.call=delay:300ms@2")
	sidecar := s.startSidecar("")
	s.witnessed(sink, failpoint.SinkCall, "delay")
	s.stop(sidecar)
	s.seen("exit 0")
	s.startSidecar("")
	s.write()
	s.seen("again %v", s.judge(1, 5).Repeats)
}

// stoppedTwice: the second signal does not wait for the sink.
func stoppedTwice(s *scene) {
	s.filling(5).base()
	s.writeMany(8)
	gate := s.gate()
	sink := s.startSink("sink.call=block:" + gate)
	sidecar := s.startSidecar("")
	s.witnessed(sink, failpoint.SinkCall, "block")
	require.NoError(s.T, sidecar.Signal(syscall.SIGTERM))
	_, err := sidecar.Wait(300 * time.Millisecond)
	require.Error(s.T, err, "the first signal waits for the unit")
	require.NoError(s.T, sidecar.Signal(syscall.SIGTERM))
	status, err := sidecar.Wait(10 * time.Second)
	require.NoError(s.T, err)
	require.Equal(s.T, core.ExitInternal, status.ExitStatus())
	s.seen("exit %d", status.ExitStatus())
	s.release(gate)
	s.startSidecar("")
	s.judge(0, 0)
}

// killedDraining kills inside a clean stop.
func killedDraining(point failpoint.Point, write int) func(*scene) {
	return func(s *scene) {
		repeats := 0
		if write > 0 {
			s.lib(write)
			repeats = write
		} else {
			s.filling(5)
		}
		s.base()
		s.writeMany(12)
		sink := s.startSink("sink.call=delay:300ms@2")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill", point))
		s.witnessed(sink, failpoint.SinkCall, "delay")
		require.NoError(s.T, sidecar.Signal(syscall.SIGTERM))
		s.killed(sidecar, point)
		s.startSidecar("")
		s.write()
		s.seen("again %v", s.judge(min(repeats, 1), repeats).Repeats)
	}
}

// batchKilled kills the sink inside a batch of five, and goes on with another size.
func batchKilled(points string, point failpoint.Point, size int) func(*scene) {
	return func(s *scene) {
		s.filling(5).base()
		s.writeMany(12)
		before := s.tx - 12
		sink := s.startSink(points)
		sidecar := s.startSidecar("")
		s.killed(sink, point)
		if point == failpoint.SinkRow {
			seen := s.ask(s.sink.DSN, "SELECT count(DISTINCT commit_lsn)::text FROM testsink.log WHERE stream = $1", s.slot)
			require.Equal(s.T, fmt.Sprint(before), seen, "ATOM: a part of the batch is visible")
		}
		if size != 5 {
			s.kill(sidecar)
			s.filling(size)
		}
		s.startSink("")
		if size != 5 {
			s.startSidecar("")
		}
		s.write()
		s.judge(0, 0)
	}
}

// batchReplyLost cuts the connection behind a committed batch, and goes on with another
// size.
func batchReplyLost(s *scene) {
	s.filling(5).base()
	p, behind := s.sinkProxyAt()
	gate := s.gate()
	sink := s.startSinkAt(behind, "sink.committed=block:"+gate)
	s.writeMany(12)
	sidecar := s.startSidecar("")
	s.witnessed(sink, failpoint.SinkCommitted, "block")
	s.seen("%d connections cut", p.cutAll())
	s.kill(sidecar)
	s.release(gate)
	s.filling(3)
	s.startSidecar("")
	s.write()
	s.judge(0, 0)
}

// borders lets a schema change and a large transaction meet an open batch.
func borders(s *scene) {
	s.env = append(s.env, "TESTSINK_REQUEST_BYTES=65536")
	s.batch(100).base()
	gate := s.gate()
	sink := s.startSink("sink.call=block:" + gate)
	s.write()
	s.startSidecar("")
	s.witnessed(sink, failpoint.SinkCall, "block")
	s.write()
	s.commit(2, "ALTER TABLE t ADD COLUMN w text", "INSERT INTO t VALUES (1, 'a', 'w'), (2, 'b', 'w')")
	s.write()
	s.commit(300, "INSERT INTO t SELECT 1000 + i, repeat(md5(i::text), 60), 'w' FROM generate_series(1, 300) i")
	s.write()
	s.commit(1, "ALTER TABLE t DROP COLUMN v", "INSERT INTO t VALUES (3, 'w')")
	s.commit(1, "INSERT INTO t VALUES (4, 'w')")
	s.release(gate)
	s.judge(0, 0)
	require.Equal(s.T, "w", s.ask(s.sink.DSN, "SELECT w FROM t WHERE id = '2'"))
}

// batchLarge kills inside a transaction that goes in pieces, behind an open batch.
func batchLarge(streaming bool, ordinal int) func(*scene) {
	return func(s *scene) {
		s.env = append(s.env, "TESTSINK_REQUEST_BYTES=65536")
		rows, size := 300, 2000
		s.batch(100)
		if streaming {
			s.streamed()
			rows, size = bulk, 2400
		}
		s.base()
		s.writeMany(3)
		s.commit(rows, s.rows(rows, size))
		s.write()
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("large.part=kill@%d", ordinal))
		s.killed(sidecar, failpoint.LargePart)
		s.write()
		s.startSidecar("")
		s.judge(0, 0)
	}
}

// messageMeetsBatch: a message outside of transactions comes behind an open batch, and
// transactions behind it.
func messageMeetsBatch(point string, ordinal int) func(*scene) {
	return func(s *scene) {
		s.filling(100)
		s.args = append(s.args, "--messages")
		s.base()
		s.writeMany(3)
		s.source.Exec(s.T, "SELECT pg_logical_emit_message(false, 'w', 'one')")
		s.writeMany(2)
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.killed(sidecar, failpoint.Point(point))
		s.write()
		s.startSidecar("")
		s.judge(0, 0)
		require.Equal(s.T, "1", s.ask(s.sink.DSN, "SELECT count(*)::text FROM testsink.message WHERE prefix = 'w'"))
		behind := s.ask(s.sink.DSN, "SELECT count(*)::text FROM testsink.log l, testsink.message m WHERE m.prefix = 'w' AND (l.seq < m.seq) <> (l.commit_lsn < m.lsn)")
		require.Equal(s.T, "0", behind, "ORD: the message stands at another place")
	}
}

// idleMeetsBatch writes WAL that holds nothing for us while a batch is open.
func idleMeetsBatch(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.filling(100)
		s.args = append(s.args, "--sender-timeout", "1s")
		s.base()
		s.startSink("sink.call=delay:1500ms")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.streaming()
		s.writeMany(3)
		for n := 1; ; n++ {
			if n%5 == 0 && ordinal > 1 {
				s.write() // a batch for the later step too
			}
			s.filtered()
			if _, err := sidecar.Wait(200 * time.Millisecond); err == nil {
				break
			}
			require.NoError(s.T, s.ctx.Err())
		}
		s.killed(sidecar, point)
		s.write()
		s.startSidecar("")
		s.judge(0, 0)
	}
}
