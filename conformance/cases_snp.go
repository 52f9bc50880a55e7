package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func snp(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Snapshot, Needs: NeedProbe | needs, Rules: rules, Title: title, Reason: reason,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_SNAPSHOT},
		Kind:         sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Cause:        cause, Run: run, Expect: "the rows that the source has, after the run",
	}
}

// ends marks a case that needs the completion too.
func ends(c Case) Case {
	c.Capabilities = append(c.Capabilities, sinkv1.Capability_CAPABILITY_SNAPSHOT_COMPLETE, sinkv1.Capability_CAPABILITY_CHECKPOINT)
	return c
}

var snpCases = []Case{
	ends(snp("SNP-001", "three tables in five chunks each, and the completion", "this is an initial copy",
		"rows of one table at a time", 0, snpTables, "S-901", "S-1001")),
	snp("SNP-002", "a run of ten rows, begun anew with seven", "a copy that failed is made again from scratch",
		"first_for_table is ignored", 0, snpRedo, "S-903"),
	snp("SNP-003", "between two attempts the stream inserts a row and updates another", "rows of the stream are newer than any copy",
		"first_for_table empties the table, the stream's rows too", 0, snpStream, "S-902", "S-903"),
	snp("SNP-004", "one table begun anew while another is half done", "first_for_table is about one table",
		"all tables of the run are cleared", 0, snpOther, "S-903"),
	snp("SNP-005", "each chunk twice, an old one again", "a lost answer is asked for again",
		"plain inserts", 0, snpTwice, "S-908"),
	snp("SNP-006", "crash points of a unit that clears and fills", "between the two the table is empty, and may stay so",
		"two commits", NeedCrash, snpCrash, "S-903", "S-102"),
	snp("SNP-007", "an empty table over rows of an older attempt", "empty tables have a unit too",
		"nothing is done without rows", 0, snpEmpty, "S-903", "S-905"),
	ends(snp("SNP-008", "the completion twice; its crash points", "completion and position are one",
		"a flag and a position in two places", NeedCrash, snpComplete, "S-1001", "S-1003")),
	ends(snp("SNP-009", "transactions that end below, at and above the snapshot's position, one whose commit record begins there",
		"a commit record may begin exactly at the consistent point, and is not in the copy",
		"a start pointer compared with an end pointer", 0, snpBorder, "S-1002", "S-106")),
	snp("SNP-010", "a chunk over a row that the stream stored in part", "the copy brings what the stream could not",
		"insert if absent, or fill the gaps", 0, snpWhole, "S-901"),
	snp("SNP-011", "units without rows, and without a relation", "arming, notes and completion are such units",
		"a relation is taken for granted", 0, snpBare, "S-905"),
	snp("SNP-012", "a streamed truncate over rows of both origins", "a truncate knows no origins",
		"rows of the copy are kept apart and forgotten", 0, snpTruncate, "S-405"),
	snp("SNP-013", "first_for_table with reset ALL", "tables without a key, and copies by replacement, begin empty",
		"rows of the stream are kept there too", 0, snpResetAll, "S-903"),
	snp("SNP-014", "a sweep at the end of a second run", "a row that is neither in the copy nor in the stream is gone at the source",
		"generations are not kept, or a touch by the stream does not count", 0, snpSweep, "S-904", "S-902"),
	snp("SNP-015", "the origin of a row that a chunk replaced", "it stays the stream's, and survives a new beginning",
		"the chunk makes it a row of the copy", 0, snpOrigin, "S-902"),
	snp("SNP-016", "a snapshot unit behind a gap", "a store that went back lacks what came before the copy too",
		"only transactions are tested", 0, snpGap, "S-907"),
	snp("SNP-017", "crash points of a sweep", "a sweep with its chunk, or neither",
		"a job that runs later", NeedCrash, snpSweepCrash, "S-904", "S-102"),
	snp("SNP-018", "the values of the VAL cases in chunks", "a chunk has its own way to the store, and its values are no plainer",
		"a loader that parses, trims or cuts", 0, snpValues, "S-901", "V-101"),
}

func snpTables(t *Trial) {
	s := t.stream()
	c := s.copying()
	tables := []*shape{t.basic(), t.table("second", "id int4 key", "name text", "note text"), t.table("third", "id text key", "name text", "note text")}
	for n, table := range tables {
		for i := range 5 {
			u := c.chunk(table, rowsOf(10*i, 10*i+9, fmt.Sprint("v", n))...)
			u.first, u.last = i == 0, i == 4
			if u.first {
				u.reset = resetRows
			}
			s.put(u)
		}
	}
	t.verify("after three tables in chunks")
	s.wal += 64
	s.complete(c, tables...)
	t.verify("after the completion")
	s.deliver(s.adjacent(update(tables[0], 3, "streamed", kept), insert(tables[1], 99, "streamed", null)))
	t.verify("after the first transaction of the stream")
}

func snpRedo(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 5, "old")...), c.chunk(table, rowsOf(6, 10, "old")...))
	again := s.copying()
	s.put(again.first(table, resetRows, rowsOf(1, 4, "new")...), again.chunk(table, rowsOf(5, 7, "new")...).final(false))
	t.verify("after a copy that was begun anew with fewer rows")
	other := t.table("second", "id int4 key", "name text", "note text")
	s.put(again.first(other, resetRows, rowsOf(1, 10, "old")...))
	third := s.copying()
	s.put(third.first(table, resetRows, rowsOf(1, 3, "third")...).final(false), third.first(other, resetRows, rowsOf(1, 2, "third")...).final(false))
	t.verify("after a run that began two tables anew")
}

// snpValues copies each type into a table of its own, in one chunk; row by row where the
// sink declines a value of it.
func snpValues(t *Trial) {
	s := t.stream()
	c := s.copying()
	for _, values := range []map[string][]string{nullTexts, oddTexts, sentinels, integers, numerics, floats, datesAndTimes, otherTypes, binaries()} {
		for _, kind := range sortedKeys(values) {
			t.oid++ // texts come in several lists
			table := t.table(fmt.Sprint("v_", t.oid), "id int4 key", "v "+kind, "w "+kind)
			var rows [][]any
			for i, v := range values[kind] {
				rows = append(rows, []any{i, v, null})
			}
			s.copied(kind, c.first(table, resetRows, rows...).final(false))
		}
	}
	t.verify("after odd values in chunks")
}

// copied sends a chunk of values, row by row where the sink declines one of them.
func (s *stream) copied(kind string, whole chunk) {
	send := func(u chunk) bool {
		err := s.sendChunk(s.t.ctx, u)
		if err == nil {
			s.t.model.chunk(s.id, u)
			return true
		}
		if a := refusal(err); a.Code != codes.OutOfRange || a.Reason != "VALUE_UNREPRESENTABLE" {
			s.t.differs("a chunk with a value of type "+kind+" is refused in another way", "OK, or OUT_OF_RANGE (VALUE_UNREPRESENTABLE)", a.Error())
		}
		return false
	}
	if send(whole) {
		return
	}
	for i := range whole.rows {
		one := whole
		one.rows, one.first, one.last = whole.rows[i:i+1], false, false
		send(one)
	}
}

func snpStream(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 10, "old")...))
	s.deliver(s.tx(insert(table, 20, "streamed", null), update(table, 3, "streamed", "too")))
	again := s.copying()
	s.put(again.first(table, resetRows, []any{3, "copied", null}, []any{4, "copied", null}))
	t.verify("after a copy that was begun anew behind the stream")
	third := s.copying()
	s.put(third.first(table, resetRows))
	t.verify("after another beginning, which must keep both rows of the stream")
}

func snpOther(t *Trial) {
	a, b := t.basic(), t.table("second", "id int4 key", "name text", "note text")
	s := t.stream()
	c := s.copying()
	s.put(c.first(a, resetRows, rowsOf(1, 5, "a")...), c.first(b, resetRows, rowsOf(1, 3, "b")...))
	s.put(c.first(a, resetRows, rowsOf(1, 2, "again")...))
	t.verify("after one of two tables was begun anew")
	s.put(c.chunk(b, rowsOf(4, 6, "b")...).final(false))
	t.verify("after the other went on")
}

func snpTwice(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	chunks := []chunk{c.first(table, resetRows, rowsOf(1, 3, "a")...)}
	for i := 1; i < 4; i++ {
		chunks = append(chunks, c.chunk(table, rowsOf(3*i+1, 3*i+3, "a")...))
	}
	for _, u := range chunks {
		s.put(u, u)
	}
	t.verify("after each chunk came twice")
	s.put(chunks[1])
	t.verify("after an old chunk came again")
}

func snpCrash(t *Trial) {
	t.crash("first_for_table over old rows", func() *scene {
		table, s := t.basic(), t.stream()
		old := s.copying()
		s.put(old.first(table, resetRows, rowsOf(1, 4, "old")...))
		again := s.copying()
		return t.chunkScene(s, again.first(table, resetRows, rowsOf(2, 3, "new")...))
	})
}

// chunkScene is the scene of a snapshot unit.
func (t *Trial) chunkScene(s *stream, u chunk) *scene {
	return &scene{
		stream: s,
		act:    func(ctx context.Context) error { return s.sendChunk(ctx, u) },
		done:   func() { t.model.chunk(s.id, u) },
		redo:   func() { s.claim(); s.put(u) },
		twice:  true,
	}
}

func snpEmpty(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 4, "old")...))
	again := s.copying()
	s.put(again.first(table, resetRows).final(false))
	t.verify("after the copy of a table that is empty now")
}

func snpComplete(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 4, "a")...))
	s.wal += 64
	s.complete(c, table)
	t.verify("after the completion")
	s.complete(c, table)
	t.verify("after the same completion again")
	t.crash("the completion", func() *scene {
		table, s := t.basic(), t.stream()
		c := s.copying()
		s.put(c.first(table, resetRows, rowsOf(1, 4, "a")...))
		s.wal += 64
		return &scene{
			stream: s,
			act:    func(ctx context.Context) error { return s.sendComplete(ctx, c, s.wal, table) },
			done:   s.completed,
			redo:   func() { s.claim(); s.complete(c, table) },
		}
	})
}

func snpBorder(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	below := s.tx(insert(table, 1, "must be skipped", null))
	at := s.tx(insert(table, 2, "must be skipped", null))
	s.put(c.first(table, resetRows, rowsOf(1, 2, "copied")...))
	s.complete(c, table)
	border := s.adjacent(insert(table, 3, "begins at the position", null))
	s.deliver(below, at, border)
	t.verify("after transactions around the snapshot's position")
	s.deliver(s.adjacent(insert(table, 4, "the next", null)))
	t.verify("after the next transaction")
}

func snpWhole(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows))
	s.deliver(s.tx(update(table, 1, "in part", kept), insert(table, 2, "old", "old")))
	s.put(c.chunk(table, []any{1, "whole", "note"}, []any{2, "new", null}))
	t.verify("after a chunk over rows of the stream")
}

func snpBare(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(chunk{run: c.run, generation: c.generation, lsn: s.wal})
	s.put(c.first(table, resetRows), c.chunk(table))
	s.put(c.chunk(table, rowsOf(1, 2, "a")...), c.chunk(table).final(false))
	s.put(chunk{run: c.run, generation: c.generation, complete: true})
	t.verify("after units without rows")
}

func snpTruncate(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 3, "copied")...))
	s.deliver(s.tx(insert(table, 4, "streamed", null)))
	s.deliver(s.tx(truncate(table), insert(table, 5, "after", null)))
	t.verify("after a truncate over rows of both origins")
}

func snpResetAll(t *Trial) {
	s := t.stream()
	table := t.basic()
	keyless := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	s.deliver(s.tx(insert(table, 1, "streamed", null), insert(keyless, "a", "b")))
	c := s.copying()
	s.put(c.first(table, resetAll, rowsOf(2, 3, "copied")...), c.first(keyless, resetAll, []any{"c", "d"}, []any{"c", "d"}))
	t.verify("after a copy by replacement")
}

func snpSweep(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 6, "copied")...).final(false))
	s.deliver(s.tx(insert(table, 7, "streamed before", null), update(table, 5, "streamed before", null)))
	again := s.copying()
	s.put(chunk{run: again.run, generation: again.generation})
	s.deliver(s.tx(update(table, 6, "streamed", null), insert(table, 8, "streamed", null)))
	s.put(again.chunk(table, rowsOf(1, 2, "copied again")...), again.chunk(table, []any{7, "copied again", null}))
	t.verify("before the sweep")
	s.put(again.chunk(table).final(true))
	t.verify("after the sweep")
}

func snpOrigin(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 3, "copied")...))
	s.deliver(s.tx(update(table, 1, "streamed", null), insert(table, 9, "streamed", null)))
	s.put(c.chunk(table, []any{1, "copied", "again"}, []any{9, "copied", "again"}))
	again := s.copying()
	s.put(again.first(table, resetRows))
	t.verify("after a new beginning behind a chunk over rows of the stream")
	s.deliver(s.tx(rekey(table, []any{1}, 5, "moved", kept)))
	s.put(again.first(table, resetRows))
	t.verify("after a key change and a new beginning")
}

func snpGap(t *Trial) {
	if !t.has(sinkv1.Capability_CAPABILITY_CHECKPOINT) {
		t.inapplicable("the sink keeps no checkpoint")
	}
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	c := s.copying()
	known := s.durable
	above := *known + 1
	s.durable = &above
	err := s.sendChunk(t.ctx, c.first(table, resetAll, rowsOf(5, 6, "a")...))
	s.durable = known
	t.mustRefuse("HandleSnapshot behind a gap", err, codes.FailedPrecondition, "CHECKPOINT_BEHIND")
	t.verify("after a snapshot unit behind a gap")
}

func snpSweepCrash(t *Trial) {
	t.crash("last_for_table with a sweep", func() *scene {
		table, s := t.basic(), t.stream()
		old := s.copying()
		s.put(old.first(table, resetRows, rowsOf(1, 5, "old")...))
		again := s.copying()
		return t.chunkScene(s, again.chunk(table, rowsOf(2, 3, "new")...).final(true))
	})
}
