package windows

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

func init() { add(anyMajor, casesCopy) }

const (
	whole    = "each row once in copy and stream, VAL ACK MONO CLEAN"
	leftover = "HALT(snapshot_incomplete) twice, under another intent too, redo, " + whole
	begins   = "no slot yet; the copy begins, " + whole
)

// casesCopy are the rows of the initial snapshot.
var casesCopy = []window{
	{"P1", 1, "SC, P snapshot.slot=kill@1", leftover, copyKilled(failpoint.SnapshotSlot, 1)},
	{"P1", 1, "SC, P snapshot.slot=kill@1, sidecar's store", leftover, libCopyKilled(failpoint.SnapshotSlot, 1)},
	{"P1", 3, "SC, P store.before=kill@1, sidecar's store", begins, armingKilled(failpoint.StoreBefore, true)},
	{"P1", 3, "SC, P chunk.applied=kill@1, sidecar's store", begins, armingKilled(failpoint.ChunkApplied, true)},
	{"P1", 3, "SC, P call.after=kill@1", begins, armingKilled(failpoint.CallAfter, false)},
	{"P1", 3, "SK, P sink.committed=kill@1", begins, armingSinkKilled},
	{"P1", 2, "SC B snapshot.slot, UP, Q pg_terminate_backend", leftover, exporterKilled},
	{"P2", 1, "SC, P snapshot.batch=kill@1", leftover, copyKilled(failpoint.SnapshotBatch, 1)},
	{"P2", 1, "SC, P snapshot.batch=kill@7", leftover, copyKilled(failpoint.SnapshotBatch, 7)},
	{"P2", 1, "SC, P snapshot.batch=kill@7, sidecar's store", leftover, libCopyKilled(failpoint.SnapshotBatch, 7)},
	{"P2", 1, "SC, P call.after=kill@2", leftover, copyKilled(failpoint.CallAfter, 2)},
	{"P2", 1, "SK, P sink.call=kill@2", "the table again, " + whole, copySinkKilled(failpoint.SinkCall, 2, false)},
	{"P2", 1, "SK, P sink.row=kill@1", "the table again, " + whole, copySinkKilled(failpoint.SinkRow, 1, false)},
	{"P2", 1, "SK, P sink.committed=kill@2", "the table again, " + whole, copySinkKilled(failpoint.SinkCommitted, 2, false)},
	{"P2", 1, "SK, P sink.call=kill@4", "the table again, " + whole, copySinkKilled(failpoint.SinkCall, 4, false)},
	{"P2", 1, "SK, P sink.row=kill@300", "the table again, " + whole, copySinkKilled(failpoint.SinkRow, 300, false)},
	{"P2", 1, "SK, P sink.committed=kill@4", "the table again, " + whole, copySinkKilled(failpoint.SinkCommitted, 4, false)},
	{"P2", 1, "SK, P sink.committed=kill@4, sidecar's store", "the table again, " + whole, copySinkKilled(failpoint.SinkCommitted, 4, true)},
	{"P2", 1, "SK, B sink.committed@4, T cut", "the table again, " + whole, copyReplyLost},
	{"P2", 2, "SC, P snapshot.table=kill@1", leftover, copyKilled(failpoint.SnapshotTable, 1)},
	{"P2", 2, "SC, P snapshot.table=kill@3", leftover, copyKilled(failpoint.SnapshotTable, 3)},
	{"P2", 3, "SC, P snapshot.copied=kill", leftover, copyKilled(failpoint.SnapshotCopied, 1)},
	{"P2", 3, "SC, P snapshot.copied=kill, sidecar's store", leftover, libCopyKilled(failpoint.SnapshotCopied, 1)},
	{"P3", 0, "UP", "one unit without rows, " + whole, emptyCopied},
	{"P4", 1, "SK, P sink.committed=kill at the completion", "goes on, " + whole, completionLost},
	{"P4", 1, "SC, P call.after=kill at the completion", "goes on, " + whole, completionUnheard},
	{"P4", 2, "SC, P store.before=kill@2, sidecar's store", leftover, libCopyKilled(failpoint.StoreBefore, 2)},
	{"P5", 0, "SC, P snapshot.completed=kill", "streams from the point, " + whole, completedKilled(false, 0)},
	{"P5", 0, "SC, P snapshot.completed=kill, sidecar's store", "streams from the point, " + whole, completedKilled(true, 0)},
	{"P5", 0, "UP, Q in turns until the tie is seen three times", "each row once in copy and stream", tieAtThePoint},
	{"P5", 0, "UP, Q four clients until it is seen three times", "each row once in copy and stream", tieUnderLoad},
	{"P6", 0, "SC, B snapshot.batch@3; UP, Q", "VAL", changedMeanwhile},
	{"P7", 0, "SC, B snapshot.batch@3; UP, S SIGKILL and start", leftover, copySourceKilled},
	{"B9", 0, "UP, Q hand-off; SC, P snapshot.completed=kill", "streams from the point, " + whole, completedKilled(false, 5)},
	{"B9", 0, "UP, Q hand-off; SC, P deliver.after=kill@1", whole, handOffKilled(failpoint.DeliverAfter, 1)},
	{"B9", 0, "UP, Q hand-off; SC, P deliver.after=kill@2", whole, handOffKilled(failpoint.DeliverAfter, 2)},
}

// copies makes databases that a copy has work with: a table of several units, one of one,
// an empty one, and a slot that belongs to somebody else.
func (s *scene) copies() *scene {
	s.Helper()
	s.intent = []string{"--snapshot", "initial"}
	s.env = append(s.env, "TESTSINK_PREFERRED=20000")
	s.make()
	s.source.Exec(s.T, "CREATE TABLE keyless (v text)", "CREATE TABLE nothing (id int PRIMARY KEY)",
		"ALTER PUBLICATION p ADD TABLE keyless, nothing",
		"INSERT INTO keyless SELECT 'same' FROM generate_series(1, 50)",
		"SELECT pg_create_logical_replication_slot('"+s.other()+"', 'pgoutput')")
	s.commit(600, s.rows(600, 300))
	s.write()
	return s
}

// other is the name of a slot that nobody may touch.
func (s *scene) other() string { return s.slot + "_other" }

// copied waits for the end of the copy and the last transaction, and requires each row of
// the source exactly once in copy and stream together.
func (s *scene) copied() judge.CopyReport {
	s.Helper()
	s.arrived()
	if s.watching == nil {
		s.watch()
	}
	_, err := judge.Settle(s.ctx, s.slotAt(), s.slot, 1, s.durable())
	require.NoError(s.T, err)
	report, err := judge.Appended(s.ctx, s.source.DSN, s.sink.DSN, s.slot, "p")
	require.NoError(s.T, err)
	require.NoError(s.T, report.Err())
	require.Positive(s.T, report.Copied)
	if s.kind == "both" {
		mirror, err := judge.Mirror(s.ctx, s.source.DSN, s.sink.DSN, "p")
		require.NoError(s.T, err)
		require.NoError(s.T, mirror.Err())
	}
	s.sampled()
	s.until("CLEAN: nothing is left at the sink", func() bool {
		left, err := judge.Clean(s.ctx, s.sink.DSN)
		return err == nil && len(left) == 0
	})
	s.until("CLEAN: no session of the copy is left", func() bool {
		return s.ask(s.source.DSN, `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database()
AND application_name = 'replicant-sidecar' AND state = 'idle in transaction'`) == "0"
	})
	units, err := judge.Copies(s.ctx, s.sink.DSN, s.slot)
	require.NoError(s.T, err)
	require.Equal(s.T, s.other(), s.ask(s.source.DSN, "SELECT slot_name::text FROM pg_replication_slots WHERE slot_name = $1", s.other()), "another slot was dropped")
	return units
}

// redo requires that the leftover halts every start and is dropped on the operator's word
// alone; then all is copied again.
func (s *scene) redo(first *sidecar) {
	s.Helper()
	if first == nil {
		first = s.startSidecar("")
	}
	s.halted(first, core.HaltSnapshotIncomplete)
	s.halted(s.startSidecar(""), core.HaltSnapshotIncomplete)
	intent := s.intent
	s.intent = []string{"--go-forward-only"}
	s.halted(s.startSidecar(""), core.HaltSnapshotIncomplete)
	s.intent = intent
	made := s.confirmed()
	require.NotEmpty(s.T, made, "the slot is gone")
	s.write()
	again := s.startSidecar("", "--snapshot-redo")
	s.write()
	s.copied()
	require.Contains(s.T, again.said(), `"msg":"dropping the slot of an unfinished copy"`)
	require.Contains(s.T, again.said(), `"slot":"`+s.slot+`"`)
}

// copyKilled kills the sidecar at a passage of the copy.
func copyKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.copies()
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.killed(sidecar, point)
		s.redo(nil)
	}
}

// libCopyKilled is the same with the checkpoint in our own store.
func libCopyKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.lib(1)
		copyKilled(point, ordinal)(s)
	}
}

// exporterKilled ends the session that made the slot before anybody has its snapshot.
func exporterKilled(s *scene) {
	s.copies()
	s.startSink("")
	gate := s.gate()
	sidecar := s.startSidecar("snapshot.slot=block:" + gate)
	s.witnessed(sidecar, failpoint.SnapshotSlot, "block")
	pid := s.ask(s.source.DSN, `SELECT pg_terminate_backend(pid)::text || ' ' || pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'walsender'`)
	require.True(s.T, strings.HasPrefix(pid, "true "), pid)
	s.seen("walsender %s ended", strings.TrimPrefix(pid, "true "))
	s.release(gate)
	s.redo(sidecar)
}

// copySinkKilled kills the sink inside the copy: the sidecar goes on with the same
// snapshot.
func copySinkKilled(point failpoint.Point, ordinal int, lib bool) func(*scene) {
	return func(s *scene) {
		if lib {
			s.lib(1)
		}
		s.copies()
		sink := s.startSink(fmt.Sprintf("%s=kill@%d", point, ordinal))
		sidecar := s.startSidecar("")
		s.killed(sink, point)
		s.write()
		s.startSink("")
		s.write()
		units := s.copied()
		require.Contains(s.T, sidecar.said(), `"msg":"a table is copied again"`)
		require.Equal(s.T, 1, runs(units), "the copy began anew")
	}
}

// runs counts the runs of a report.
func runs(r judge.CopyReport) int {
	all := map[string]bool{}
	for _, u := range r.Units {
		all[u.Run] = true
	}
	return len(all)
}

// copyReplyLost cuts the connection behind a committed unit of the copy.
func copyReplyLost(s *scene) {
	s.copies()
	p, behind := s.sinkProxyAt()
	gate := s.gate()
	sink := s.startSinkAt(behind, "sink.committed=block:"+gate+"@4")
	s.startSidecar("")
	s.witnessed(sink, failpoint.SinkCommitted, "block")
	s.seen("%d connections cut", p.cutAll())
	s.release(gate)
	s.write()
	require.Equal(s.T, 1, runs(s.copied()))
}

// emptyCopied: an empty table has one unit, first and last at once.
func emptyCopied(s *scene) {
	s.copies()
	s.startSink("")
	s.startSidecar("")
	s.write()
	units := s.copied().Of("public.nothing")
	require.Len(s.T, units, 1)
	require.True(s.T, units[0].First && units[0].Last)
	require.Zero(s.T, units[0].Rows)
	s.seen("one unit, 0 rows")
}

// completionLost kills the sink behind the committed completion: its commit is the one
// after those of the units, which a first stream of the same rows has counted.
func completionLost(s *scene) {
	s.copies()
	n := s.countUnits() + 1
	sink := s.startSink(fmt.Sprintf("sink.committed=kill@%d", n))
	sidecar := s.startSidecar("")
	s.killed(sink, failpoint.SinkCommitted)
	require.NotZero(s.T, s.position(), "the completion was not committed")
	s.write()
	s.startSink("")
	require.Equal(s.T, 1, s.copied().Completions)
	require.Empty(s.T, sidecar.halt())
}

// completionUnheard kills the sidecar behind the sink's OK to the completion.
func completionUnheard(s *scene) {
	s.copies()
	n := s.countUnits() + 1
	s.startSink("")
	sidecar := s.startSidecar(fmt.Sprintf("call.after=kill@%d", n))
	s.killed(sidecar, failpoint.CallAfter)
	point := s.position()
	require.NotZero(s.T, point)
	s.write()
	s.watch()
	next := s.startSidecar("")
	s.copied()
	require.Contains(s.T, next.said(), `"msg":"streaming","from":"`+point.String()+`"`)
}

func (s *scene) position() core.LSN {
	s.Helper()
	at, err := s.durable()(s.ctx)
	require.NoError(s.T, err)
	return at
}

// countUnits copies once under another name, drops the slot of that, and says how many
// units there were.
func (s *scene) countUnits() int {
	s.Helper()
	name := s.slot
	s.slot = name + "_count"
	sink := s.startSink("")
	sidecar := s.startSidecar("")
	s.until("the copy is complete", func() bool { at, err := s.durable()(s.ctx); return err == nil && at != 0 })
	s.streaming()
	s.stop(sidecar)
	s.end(sink)
	report, err := judge.Copies(s.ctx, s.sink.DSN, s.slot)
	require.NoError(s.T, err)
	require.Equal(s.T, 1, report.Completions)
	s.source.Exec(s.T, "SELECT pg_drop_replication_slot('"+s.slot+"')")
	s.slot = name
	return len(report.Units)
}

// completedKilled kills between the completion and the stream. With batch the first unit
// of the stream holds several transactions.
func completedKilled(lib bool, batch int) func(*scene) {
	return func(s *scene) {
		switch {
		case lib:
			s.lib(1)
		case batch > 0:
			s.filling(batch)
		}
		s.copies()
		s.startSink("")
		gate := s.gate()
		sidecar := s.startSidecar("snapshot.copied=block:" + gate + ";snapshot.completed=kill")
		s.witnessed(sidecar, failpoint.SnapshotCopied, "block")
		s.writeMany(8)
		s.release(gate)
		s.killed(sidecar, failpoint.SnapshotCompleted)
		point := s.position()
		require.NotZero(s.T, point)
		s.watch()
		next := s.startSidecar("")
		s.copied()
		require.Contains(s.T, next.said(), `"msg":"streaming","from":"`+point.String()+`"`)
	}
}

// handOffKilled kills at the first units of the stream behind the hand-off, whose batches
// are full of what was written during the copy.
func handOffKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.filling(5).copies()
		s.startSink("")
		gate := s.gate()
		sidecar := s.startSidecar(fmt.Sprintf("snapshot.copied=block:%s;%s=kill@%d", gate, point, ordinal))
		s.witnessed(sidecar, failpoint.SnapshotCopied, "block")
		s.writeMany(12)
		s.release(gate)
		s.killed(sidecar, point)
		s.watch()
		s.startSidecar("")
		s.write()
		s.copied()
	}
}

// changedMeanwhile changes rows that were copied, rows that are being copied and rows
// that are not yet, while the copy stands still.
func changedMeanwhile(s *scene) {
	s.copies()
	s.startSink("")
	gate := s.gate()
	sidecar := s.startSidecar("snapshot.batch=block:" + gate + "@3")
	s.witnessed(sidecar, failpoint.SnapshotBatch, "block")
	s.source.Exec(s.T, "UPDATE t SET v = 'new' WHERE id % 3 = 0", "DELETE FROM t WHERE id % 7 = 0", "UPDATE t SET id = -id WHERE id % 5 = 0",
		"UPDATE t SET id = id - 1 WHERE id % 11 = 0 AND NOT EXISTS (SELECT FROM t o WHERE o.id = t.id - 1)", "INSERT INTO nothing VALUES (1), (2)",
		"UPDATE nothing SET id = 3 WHERE id = 1", "DELETE FROM nothing WHERE id = 2", "INSERT INTO keyless VALUES ('more')")
	s.seen("changed")
	s.write()
	s.release(gate)
	s.arrived()
	s.watch()
	_, err := judge.Settle(s.ctx, s.slotAt(), s.slot, 1, s.durable())
	require.NoError(s.T, err)
	mirror, err := judge.Mirror(s.ctx, s.source.DSN, s.sink.DSN, "p")
	require.NoError(s.T, err)
	require.NoError(s.T, mirror.Err())
	s.sampled()
}

// copySourceKilled kills the source's server inside the copy.
func copySourceKilled(s *scene) {
	s.own().copies()
	s.commit(6000, s.rows(6000, 3000)) // more than all buffers on the way hold
	s.startSink("")
	gate := s.gate()
	sidecar := s.startSidecar("snapshot.batch=block:" + gate + "@3")
	s.witnessed(sidecar, failpoint.SnapshotBatch, "block")
	pid := s.server.PID()
	require.NoError(s.T, s.server.Kill())
	require.ErrorIs(s.T, syscall.Kill(pid, 0), syscall.ESRCH)
	require.NoError(s.T, s.server.Restart(s.ctx))
	s.seen("postmaster %d killed", pid)
	s.release(gate)
	s.redo(sidecar)
}
