package conformance

import (
	"bytes"
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func inc(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Incremental, Needs: needs, Rules: rules, Title: title, Reason: reason, Cause: cause, Run: run,
		Capabilities: []sinkv1.Capability{
			sinkv1.Capability_CAPABILITY_CHECKPOINT, sinkv1.Capability_CAPABILITY_SNAPSHOT, sinkv1.Capability_CAPABILITY_SNAPSHOT_PROGRESS,
		},
		Expect: "the token that was stored with the last unit that had one, bit by bit",
	}
}

var incCases = []Case{
	inc("INC-001", "crash points of a chunk with a token", "a token ahead of its rows leaves a hole that nobody copies again",
		"the token is stored after the chunk", NeedProbe|NeedCrash, incCrash, "S-906"),
	inc("INC-002", "tokens with every byte, of 1 MiB, empty; a stream that nobody knows", "it is opaque, and holds keys as bytes",
		"a text column", 0, incBytes, "S-906", "S-1101", "S-1102"),
	inc("INC-003", "a kill after a chunk, and on from the token", "a run goes on where it was",
		"the token is kept in memory", NeedProbe|NeedLifecycle, incResume, "S-906"),
	inc("INC-004", "units of the stream between chunks, on the same keys", "the copy runs beside the stream",
		"two writers for one table", NeedProbe, incBeside, "S-901", "S-902"),
	inc("INC-005", "first_for_table with a new token, then without one", "clearing a table is not clearing the run",
		"first_for_table resets everything of the run", 0, incFirst, "S-903", "S-906"),
	inc("INC-006", "units without a token, and transactions, behind one with a token", "absent keeps what is stored",
		"the column is overwritten with nothing", 0, incKeep, "S-906"),
	inc("INC-007", "SnapshotProgress for another source", "a token of another server names keys of another table",
		"the source is not compared", 0, incSource, "S-305", "S-1101"),
	inc("INC-008", "a unit without rows that brings a token", "arming and repair notes are nothing else",
		"nothing is stored without rows", 0, incBare, "S-905", "S-906"),
}

func incCrash(t *Trial) {
	t.crash("chunk with a token", func() *scene {
		table, s := t.basic(), t.stream()
		c := s.copying()
		s.put(c.first(table, resetRows, rowsOf(1, 2, "a")...).with([]byte("token 1")))
		u := c.chunk(table, rowsOf(3, 5, "a")...).with([]byte("token 2"))
		sc := t.chunkScene(s, u)
		sc.state = func() string { return string(s.token()) }
		sc.stateBefore, sc.stateAfter = "token 1", "token 2"
		return sc
	})
}

func (s *stream) wantToken(when string, want []byte) {
	if have := s.token(); !bytes.Equal(have, want) || (have == nil) != (want == nil) {
		s.t.differs("the token is another "+when, fmt.Sprintf("%d bytes", len(want)), tokenText(have, want))
	}
}

func tokenText(have, want []byte) string {
	switch {
	case have == nil:
		return "absent"
	case len(have) == len(want):
		return "as many, and others"
	}
	return fmt.Sprintf("%d bytes", len(have))
}

func incBytes(t *Trial) {
	s := t.stream()
	s.wantToken("of a stream that never had one", nil)
	c := s.copying()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, token := range [][]byte{{0}, {0xff, 0, 0xfe}, every, t.bytes(sinkv1.MaxProgressTokenBytes), []byte("short"), {}} {
		s.put(chunk{run: c.run, generation: c.generation}.with(token))
		s.wantToken(fmt.Sprintf("after one of %d bytes", len(token)), token)
	}
	other := t.unclaimed("_none")
	t.streams = t.streams[:1]
	other.wantToken("of a stream that nobody knows", nil)
}

func incResume(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 3, "a")...).with([]byte("to 3")))
	s.put(c.chunk(table, rowsOf(4, 6, "a")...).with([]byte("to 6")))
	t.bounce()
	s.claim()
	s.wantToken("after a kill", []byte("to 6"))
	t.verify("after a kill in a copy")
	s.put(c.chunk(table, rowsOf(7, 9, "a")...).with([]byte("to 9")))
	t.bounce()
	s.claim()
	s.wantToken("after another kill", []byte("to 9"))
	t.verify("at the end of a copy with two kills")
}

func incBeside(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(chunk{run: c.run, generation: c.generation}.with([]byte("armed")))
	s.put(c.first(table, resetRows).with([]byte("cleared")))
	s.deliver(s.tx(insert(table, 1, "streamed", "a"), update(table, 2, "streamed", kept)))
	s.put(c.chunk(table, []any{1, "copied", "a"}, []any{2, "copied", "large"}, []any{3, "copied", "large too"}).with([]byte("to 3")))
	t.verify("after a chunk behind the stream")
	s.deliver(s.tx(update(table, 3, "streamed", kept), remove(table, 1), rekey(table, []any{2}, 12, "moved", kept)))
	t.verify("after the stream behind a chunk")
	s.put(c.chunk(table, []any{5, "copied", null}).final(false).with([]byte("done")))
	s.put(chunk{run: c.run, generation: c.generation, complete: true}.with([]byte("complete")))
	t.verify("at the end of the copy")
	s.wantToken("at the end of the copy", []byte("complete"))
}

func incFirst(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.chunk(table, rowsOf(1, 2, "a")...).with([]byte("old")))
	s.put(c.first(table, resetRows, rowsOf(1, 1, "a")...).with([]byte("new")))
	s.wantToken("after first_for_table with one", []byte("new"))
	s.put(c.first(table, resetRows, rowsOf(1, 1, "b")...))
	s.wantToken("after first_for_table without one", []byte("new"))
	s.put(c.first(table, resetAll, rowsOf(1, 1, "c")...))
	s.wantToken("after reset ALL without one", []byte("new"))
}

func incKeep(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.chunk(table, rowsOf(1, 2, "a")...).with([]byte("kept")))
	s.put(c.chunk(table, rowsOf(3, 4, "a")...))
	s.wantToken("after a chunk without one", []byte("kept"))
	s.deliver(s.tx(insert(table, 9, "a", null)))
	s.settle(s.idle())
	s.claim()
	s.wantToken("after transactions and a claim", []byte("kept"))
}

func incSource(t *Trial) {
	s := t.stream()
	c := s.copying()
	s.put(chunk{run: c.run, generation: c.generation}.with([]byte("mine")))
	other := proto.CloneOf(s.source)
	other.SystemIdentifier = "1111111111111111111"
	ctx, cancel := context.WithTimeout(t.ctx, t.session.patience())
	defer cancel()
	_, err := t.link.sink.SnapshotProgress(ctx, &sinkv1.SnapshotProgressRequest{StreamId: s.id, Source: other})
	t.mustRefuse("SnapshotProgress for another source", err, codes.FailedPrecondition, "SOURCE_MISMATCH")
}

func incBare(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	for i := range 3 {
		token := []byte(fmt.Sprint("note ", i))
		s.put(chunk{run: c.run, generation: c.generation}.with(token))
		s.wantToken("after a unit without a relation", token)
		token = append(token, " of a table"...)
		s.put(c.chunk(table).with(token))
		s.wantToken("after a unit without rows", token)
	}
}
