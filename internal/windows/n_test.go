package windows

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

func init() { add(anyMajor, casesBeside) }

const goesOn = "goes on from the token, VAL ACK MONO CLEAN"

// casesBeside are the rows of the incremental snapshot.
var casesBeside = []window{
	{"N1", 1, "SC, P table.cleared=kill@1", goesOn, besideKilled(failpoint.TableCleared, 1)},
	{"N1", 1, "SC, P table.cleared=kill@2", goesOn, besideKilled(failpoint.TableCleared, 2)},
	{"N1", 1, "SC, P chunk.locked=kill@1", goesOn, besideKilled(failpoint.ChunkLocked, 1)},
	{"N1", 1, "SC, P chunk.locked=kill@4", goesOn, besideKilled(failpoint.ChunkLocked, 4)},
	{"N1", 2, "SC, P chunk.snapshot=kill@1", goesOn, besideKilled(failpoint.ChunkSnapshot, 1)},
	{"N1", 2, "SC, P chunk.snapshot=kill@4", goesOn, besideKilled(failpoint.ChunkSnapshot, 4)},
	{"N1", 3, "SC, P chunk.selected=kill@1", goesOn, besideKilled(failpoint.ChunkSelected, 1)},
	{"N1", 3, "SC, P chunk.selected=kill@4", goesOn, besideKilled(failpoint.ChunkSelected, 4)},
	{"N1", 3, "SC, P chunk.marked=kill@1", goesOn, besideKilled(failpoint.ChunkMarked, 1)},
	{"N1", 3, "SC, P chunk.marked=kill@4", goesOn, besideKilled(failpoint.ChunkMarked, 4)},
	{"N2", 0, "SC, P chunk.buffered=kill@1", goesOn, besideKilled(failpoint.ChunkBuffered, 1)},
	{"N2", 0, "SC, P chunk.buffered=kill@4", goesOn, besideKilled(failpoint.ChunkBuffered, 4)},
	{"N3", 0, "SC, B chunk.selected@1; UP, Q", "VAL ACK MONO CLEAN", changedInTheWindow},
	{"N4", 0, "SK, P sink.committed=kill@6", goesOn, besideSinkKilled(failpoint.SinkCommitted, 6)},
	{"N4", 0, "SC, P chunk.applied=kill@1", goesOn, besideKilled(failpoint.ChunkApplied, 1)},
	{"N4", 0, "SC, P chunk.applied=kill@6", goesOn, besideKilled(failpoint.ChunkApplied, 6)},
	{"N4", 0, "SC, P token.stored=kill@1", goesOn, besideKilled(failpoint.TokenStored, 1)},
	{"N4", 0, "SC, P token.stored=kill@6", goesOn, besideKilled(failpoint.TokenStored, 6)},
	{"N5", 0, "SC, P chunk.applied=kill@5, sidecar's store", goesOn, libBesideKilled(failpoint.ChunkApplied, 5)},
	{"N5", 0, "SC, P store.before=kill@6, sidecar's store", goesOn, libBesideKilled(failpoint.StoreBefore, 6)},
	{"N6", 0, "SC, B chunk.marked@1; UP, Q TRUNCATE", "the chunk is read again, VAL", truncatedInTheWindow},
	{"N7", 0, "SC, P chunk.applied=kill at the completion", "the completion again, VAL", completionKilled},
	{"N8", 0, "SC, B chunk.marked@2; UP, Q pg_terminate_backend", goesOn, cutInTheWindow},
	{"N9", 1, "SC, P chunk.marked=kill in a table without a key", "the table again, VAL", keylessKilled},
	{"N9", 1, "SC, P table.attached=kill@1", goesOn, attachedKilled(1)},
	{"N9", 1, "SC, P table.attached=kill@2", goesOn, attachedKilled(2)},
	{"N9", 2, "SC, B chunk.snapshot@1; UP, Q", "VAL", keylessWritten},
	{"N10", 0, "SC, B chunk.marked@1; UP, Q", "VAL", everythingInTheWindow},
	{"N10", 0, "UP, Q; SC, P repair.noted=kill@1", goesOn, notedKilled(1)},
	{"N10", 0, "UP, Q; SC, P repair.noted=kill@2", goesOn, notedKilled(2)},
	{"N12", 0, "ST, Q UPDATE of the token", "HALT(progress_invalid) twice", tampered},
	{"B7", 0, "SC, B chunk.buffered@1; UP, Q", "the batch before the chunk, VAL", chunkBehindABatch},
}

// beside makes databases for a copy beside the stream: t is several chunks.
func (s *scene) beside() *scene {
	s.Helper()
	s.kind = "mirror"
	s.intent = []string{"--snapshot", "incremental"}
	s.args = append(s.args, "--copy-chunk-rows", "50", "--copy-connections", "1")
	s.make()
	s.source.Exec(s.T, "ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
	s.commit(300, s.rows(300, 3000))
	s.write()
	return s
}

// complete waits for the end of the run.
func (s *scene) complete(c *sidecar) {
	s.Helper()
	s.until("the run is complete", func() bool { return strings.Contains(c.said(), `"msg":"snapshot complete"`) })
}

// same waits for the last transaction and requires that the mirror is the source.
func (s *scene) same() {
	s.Helper()
	s.arrived()
	if s.watching == nil {
		s.watch()
	}
	_, err := judge.Settle(s.ctx, s.slotAt(), s.slot, 1, s.durable())
	require.NoError(s.T, err)
	mirror, err := judge.Mirror(s.ctx, s.source.DSN, s.sink.DSN, "p")
	require.NoError(s.T, err)
	require.NoError(s.T, mirror.Err())
	s.sampled()
	s.until("CLEAN: nothing is left at the sink", func() bool {
		left, err := judge.Clean(s.ctx, s.sink.DSN)
		return err == nil && len(left) == 0
	})
}

// besideKilled kills the sidecar at a passage of the copy; the next goes on.
func besideKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.beside()
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.killed(sidecar, point)
		s.write()
		next := s.startSidecar("")
		s.complete(next)
		s.write()
		s.same()
	}
}

func libBesideKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.lib(1)
		besideKilled(point, ordinal)(s)
	}
}

func besideSinkKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.beside()
		sink := s.startSink(fmt.Sprintf("%s=kill@%d", point, ordinal))
		sidecar := s.startSidecar("")
		s.killed(sink, point)
		s.write()
		s.startSink("")
		s.complete(sidecar)
		s.write()
		s.same()
	}
}

// stopped starts a sidecar that stands still at a point, does f, and lets it go on.
func (s *scene) stopped(point failpoint.Point, ordinal int, more string, f func()) *sidecar {
	s.Helper()
	gate := s.gate()
	sidecar := s.startSidecar(fmt.Sprintf("%s=block:%s@%d%s", point, gate, ordinal, more))
	s.witnessed(sidecar, point, "block")
	f()
	s.release(gate)
	return sidecar
}

// change changes, moves and deletes rows of t, with and without the large column.
func (s *scene) change() {
	s.Helper()
	s.source.Exec(s.T, "UPDATE t SET v = repeat('n', 3000) WHERE id % 3 = 0", "DELETE FROM t WHERE id % 7 = 0",
		fmt.Sprintf("UPDATE t SET id = id + 10000000000000::bigint * %d WHERE id %% 5 = 0", s.tx),
		"UPDATE t SET id = id - 1 WHERE id % 11 = 0 AND NOT EXISTS (SELECT FROM t o WHERE o.id = t.id - 1)",
		"DO $$ DECLARE a bigint; b bigint; BEGIN SELECT min(id), max(id) INTO a, b FROM t; DELETE FROM t WHERE id = b; UPDATE t SET id = b WHERE id = a; END $$")
	s.write()
	s.seen("changed")
}

// changedInTheWindow changes rows of a chunk before its window, inside and after it.
func changedInTheWindow(s *scene) {
	s.beside()
	s.startSink("")
	s.change()
	sidecar := s.stopped(failpoint.ChunkSelected, 1, "", s.change)
	s.change()
	s.complete(sidecar)
	s.write()
	s.same()
}

// truncatedInTheWindow empties a table whose rows have been read.
func truncatedInTheWindow(s *scene) {
	s.beside()
	s.startSink("")
	sidecar := s.stopped(failpoint.ChunkBuffered, 2, "", func() {
		s.source.Exec(s.T, "TRUNCATE t", "INSERT INTO t VALUES (1, 'after')")
		s.write()
		s.seen("truncated")
	})
	s.complete(sidecar)
	s.same()
}

// completionKilled kills when the last unit of the run is durable and nobody knows. There
// are an arming, two tables of a clear, a chunk and an end each, and the completion.
func completionKilled(s *scene) {
	s.beside()
	s.args = append(s.args, "--copy-chunk-rows", "2000")
	s.startSink("")
	sidecar := s.startSidecar("chunk.applied=kill@8")
	s.killed(sidecar, failpoint.ChunkApplied)
	s.write()
	s.startSidecar("")
	s.write()
	s.same()
}

// cutInTheWindow ends the stream while a chunk is read: what is read belongs to no window
// any more.
func cutInTheWindow(s *scene) {
	s.beside()
	s.startSink("")
	sidecar := s.stopped(failpoint.ChunkMarked, 2, "", func() {
		pid := s.ask(s.source.DSN, `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'walsender'`)
		require.Equal(s.T, "true", pid)
		s.change()
	})
	s.complete(sidecar)
	s.same()
}

// keyless adds a table without a key, of several pieces.
func (s *scene) keyless() *scene {
	s.Helper()
	s.beside()
	s.source.Exec(s.T, "CREATE TABLE keyless (v text)", "ALTER TABLE keyless REPLICA IDENTITY FULL",
		"INSERT INTO keyless SELECT 'same' FROM generate_series(1, 300)", "ALTER PUBLICATION p ADD TABLE keyless")
	return s
}

// keylessKilled kills inside the copy of a table without a key, which is read first.
func keylessKilled(s *scene) {
	s.keyless()
	s.startSink("")
	sidecar := s.startSidecar("chunk.marked=kill@3")
	s.killed(sidecar, failpoint.ChunkMarked)
	s.source.Exec(s.T, "DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless LIMIT 10)", "INSERT INTO keyless VALUES ('new')")
	s.write()
	next := s.startSidecar("")
	s.complete(next)
	s.write()
	s.same()
}

// attachedKilled kills when the copy of a table without a key is durable and nobody knows.
// What its snapshot shows is left out of what comes again.
func attachedKilled(ordinal int) func(*scene) {
	return func(s *scene) {
		s.keyless()
		s.source.Exec(s.T, "CREATE TABLE other (v text)", "INSERT INTO other SELECT 'same' FROM generate_series(1, 60)", "ALTER PUBLICATION p ADD TABLE other")
		s.startSink("")
		written := func() {
			s.source.Exec(s.T, "INSERT INTO other VALUES ('new')", "UPDATE keyless SET v = 'changed' WHERE ctid = (SELECT min(ctid) FROM keyless)",
				"DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless LIMIT 3)")
			s.write()
		}
		sidecar := s.stopped(failpoint.ChunkLocked, 1, fmt.Sprintf(";table.attached=kill@%d", ordinal), written)
		written()
		s.killed(sidecar, failpoint.TableAttached)
		written()
		next := s.startSidecar("")
		s.complete(next)
		written()
		s.same()
	}
}

// keylessWritten writes a table without a key before its first piece is there, and while
// the rest is read.
func keylessWritten(s *scene) {
	s.keyless()
	s.startSink("")
	sidecar := s.stopped(failpoint.ChunkSnapshot, 1, ";chunk.marked=delay:300ms@2", func() {
		s.source.Exec(s.T, "INSERT INTO keyless VALUES ('new'), ('same')")
		s.write()
	})
	s.source.Exec(s.T, "DELETE FROM keyless WHERE v = 'new'", "INSERT INTO keyless VALUES ('late')")
	s.complete(sidecar)
	s.write()
	s.same()
}

// everythingInTheWindow truncates, moves, drops and adds tables while chunks are read.
func everythingInTheWindow(s *scene) {
	s.beside()
	s.source.Exec(s.T, "CREATE TABLE dropped (id int PRIMARY KEY)", "INSERT INTO dropped SELECT generate_series(1, 200)",
		"ALTER PUBLICATION p ADD TABLE dropped", "CREATE TABLE added (id int PRIMARY KEY, v text)", "INSERT INTO added VALUES (1, 'old'), (2, 'old')")
	s.startSink("")
	writer := s.session()
	sidecar := s.stopped(failpoint.ChunkMarked, 1, "", func() {
		s.change()
		s.do(writer, "BEGIN; UPDATE added SET v = 'before' WHERE id = 1")
		s.source.Exec(s.T, "ALTER PUBLICATION p ADD TABLE added")
		s.do(writer, "UPDATE added SET id = 3 WHERE id = 2; COMMIT")
	})
	s.source.Exec(s.T, "DROP TABLE dropped")
	s.complete(sidecar)
	s.until("the added table is there", func() bool {
		return s.ask(s.sink.DSN, `SELECT count(*)::text FROM public.added`) == "2"
	})
	s.write()
	s.same()
}

// notedKilled kills when the repair list is durable and the transaction is not that needs
// it: a row has come to another key without its large column.
func notedKilled(ordinal int) func(*scene) {
	return func(s *scene) {
		s.beside()
		s.startSink("")
		gate := s.gate()
		sidecar := s.startSidecar(fmt.Sprintf("chunk.marked=block:%s@2;repair.noted=kill@%d", gate, ordinal))
		s.witnessed(sidecar, failpoint.ChunkMarked, "block")
		for i := range ordinal {
			if i > 0 {
				s.arrived() // the next one has a note of its own
			}
			s.source.Exec(s.T, fmt.Sprintf("UPDATE t SET id = -%d WHERE id = (SELECT max(id) FROM t WHERE length(v) > 2500)", i+1))
			s.write()
		}
		s.killed(sidecar, failpoint.RepairNoted)
		s.release(gate)
		s.write()
		next := s.startSidecar("")
		s.complete(next)
		s.same()
	}
}

// tampered changes one bit of the stored token.
func tampered(s *scene) {
	s.beside()
	s.startSink("")
	sidecar := s.startSidecar("chunk.marked=kill@2")
	s.killed(sidecar, failpoint.ChunkMarked)
	s.sink.Exec(s.T, `UPDATE testsink.snapshot SET token = set_bit(token, 300, 1 - get_bit(token, 300))`)
	s.halted(s.startSidecar(""), core.HaltProgressInvalid)
	s.halted(s.startSidecar(""), core.HaltProgressInvalid)
}

// chunkBehindABatch holds a chunk until transactions that touch its rows wait in a batch.
func chunkBehindABatch(s *scene) {
	s.batch(50).beside()
	s.startSink("")
	sidecar := s.stopped(failpoint.ChunkBuffered, 1, "", func() {
		s.change()
		s.writeMany(5)
	})
	s.complete(sidecar)
	s.write()
	s.same()
}
