package assembler

import (
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/stretchr/testify/require"
)

// Messages of transactions in progress as the decoder makes them.

func streamStart(xid uint32) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindStreamStart, XID: xid}
}

func streamFirst(xid uint32) pgoutput.Message {
	m := streamStart(xid)
	m.First = true
	return m
}

func streamStop() pgoutput.Message { return pgoutput.Message{Kind: pgoutput.KindStreamStop} }

func streamAbort(xid, sub uint32) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindStreamAbort, XID: xid, SubXID: sub}
}

// streamCommit ends a transaction of that LSN ten bytes later.
func streamCommit(xid uint32, lsn core.LSN) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindStreamCommit, XID: xid, LSN: lsn, EndLSN: lsn + 10, Time: int64(lsn)}
}

// of puts a message into a subtransaction, as it is inside a block.
func of(sub uint32, m pgoutput.Message) pgoutput.Message {
	m.SubXID, m.Body = sub, body(&m)
	return m
}

// block is one block of a transaction; the first one begins it.
func block(xid uint32, first bool, inside ...pgoutput.Message) []pgoutput.Message {
	start := streamStart(xid)
	start.First = first
	return append(append([]pgoutput.Message{start}, inside...), streamStop())
}

func joined(parts ...[]pgoutput.Message) (all []pgoutput.Message) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// story is what an assembler made of messages, step by step, in short words.
type story struct {
	t     *testing.T
	a     *Assembler
	lines []string
}

func tell(t *testing.T, o Options, messages ...pgoutput.Message) []string {
	t.Helper()
	s := &story{t: t, a: New(o)}
	defer s.a.Close()
	s.push(messages...)
	return s.lines
}

func (s *story) push(messages ...pgoutput.Message) {
	s.t.Helper()
	for i := range messages {
		step, err := s.a.Push(&messages[i])
		require.NoError(s.t, err, "message %d, %s", i, messages[i].Kind)
		s.step(step)
		for s.a.Replaying() {
			step, err := s.a.Replay()
			require.NoError(s.t, err)
			s.step(step)
		}
	}
}

func (s *story) step(step Step) {
	switch step {
	case StepSchemaChange:
		s.lines = append(s.lines, s.a.SchemaChange().What)
	case StepMessage:
		s.lines = append(s.lines, "message "+string(s.a.Message().Content))
	case StepCommit:
		tx, mark := s.a.Take()
		line := "tx"
		for _, c := range tx.Changes {
			switch {
			case c.Message != nil:
				line += " message=" + string(c.Message.Content)
			case c.Truncate != nil:
				line += " truncate"
			default:
				require.Equal(s.t, len(c.Relation.Columns), c.New.Len())
				line += " " + letters(c.New)
			}
		}
		s.lines = append(s.lines, line)
		s.a.Release(mark)
	}
}

var (
	one = func() pgoutput.Message { return table(tOID, 'd', "id*") }
	two = func() pgoutput.Message { return table(tOID, 'd', "id*", "a") }
)

// What a sink is told of interleaved transactions, savepoints and descriptions. Each case
// runs with all in memory and with all spilled.
func TestStreams(t *testing.T) {
	for name, c := range map[string]struct {
		messages []pgoutput.Message
		want     []string
	}{
		"commits in the order of their commits": {joined(
			block(7, true, of(7, one()), of(7, insert(tOID, "1"))), block(8, true, of(8, one()), of(8, insert(tOID, "2"))),
			messages{begin(100), one(), insert(tOID, "3"), commit(100)}, block(7, false, of(7, insert(tOID, "4"))),
			messages{streamCommit(8, 200)}, block(7, false), messages{streamCommit(7, 300)}),
			[]string{"tx 3", "tx 2", "tx 1 4"}},
		"nothing in it": {joined(block(7, true), block(7, false), messages{streamCommit(7, 100)}), []string{"tx"}},
		"savepoints of which nothing stays": {joined(block(7, true, of(8, one()), of(8, insert(tOID, "1"))),
			messages{streamAbort(7, 8), streamCommit(7, 100)}), []string{"tx"}},
		"only a message": {joined(block(7, true, of(7, logical(true, 50, "p", "c"))), messages{streamCommit(7, 100)}), []string{"tx message=c"}},
		"a message without transaction between blocks": {joined(block(7, true, of(7, one()), of(7, insert(tOID, "1"))),
			messages{logical(false, 50, "p", "c")}, block(7, false, of(7, insert(tOID, "2"))), messages{streamCommit(7, 100)}),
			[]string{"message c", "tx 1 2"}},
		"a rolled back savepoint is left out wherever it stands": {joined(
			block(7, true, of(7, one()), of(7, insert(tOID, "1")), of(8, insert(tOID, "2")), of(7, insert(tOID, "3")), of(8, insert(tOID, "4"))),
			messages{streamAbort(7, 8)}, block(7, false, of(7, one()), of(7, insert(tOID, "5"))), messages{streamCommit(7, 100)}),
			[]string{"tx 1 3 5"}},
		"children first, then the parent": {joined(
			block(7, true, of(7, one()), of(7, insert(tOID, "1")), of(8, insert(tOID, "2")), of(9, insert(tOID, "3")), of(8, insert(tOID, "4"))),
			messages{streamAbort(7, 9), streamAbort(7, 8)}, block(7, false, of(10, one()), of(10, insert(tOID, "5")), of(10, truncateOf(tOID))),
			messages{streamCommit(7, 100)}), []string{"tx 1 5 truncate"}},
		"a child alone": {joined(
			block(7, true, of(7, one()), of(8, insert(tOID, "2")), of(9, insert(tOID, "3")), of(8, insert(tOID, "4"))),
			messages{streamAbort(7, 9), streamCommit(7, 100)}), []string{"tx 2 4"}},
		"savepoints and transactions that never came": {joined(block(7, true, of(7, one()), of(7, insert(tOID, "1"))),
			messages{streamAbort(7, 8), streamAbort(99, 98), streamAbort(99, 99), streamCommit(7, 100)}), []string{"tx 1"}},
		"an id is used again after its end": {joined(block(7, true, of(7, one()), of(7, insert(tOID, "1"))), messages{streamAbort(7, 7)},
			block(7, true, of(7, one()), of(7, insert(tOID, "2"))), messages{streamCommit(7, 100)},
			block(7, true, of(7, one()), of(7, insert(tOID, "3"))), messages{streamCommit(7, 200)}), []string{"tx 2", "tx 3"}},
		"ids that wrap around": {joined(
			block(1<<32-2, true, of(1<<32-1, one()), of(1<<32-1, insert(tOID, "1")), of(3, insert(tOID, "2")), of(1<<32-2, insert(tOID, "3"))),
			messages{streamAbort(1<<32-2, 3), streamCommit(1<<32-2, 100)}), []string{"tx 1 3"}},

		"a description counts from the commit on": {joined(messages{begin(100), one(), insert(tOID, "1"), commit(100)},
			block(7, true, of(7, two()), of(7, insert(tOID, "2x"))),
			messages{begin(200), insert(tOID, "3"), commit(200), streamCommit(7, 300), begin(400), insert(tOID, "4x"), commit(400)}),
			[]string{"tx 1", "tx 3", columnsAdded, "tx 2x", "tx 4x"}},
		"a description of an aborted transaction never counts": {joined(messages{begin(100), two(), insert(tOID, "1x"), commit(100)},
			block(7, true, of(7, one()), of(7, insert(tOID, "2"))), messages{streamAbort(7, 7), begin(200), insert(tOID, "3x"), commit(200)}),
			[]string{"tx 1x", "tx 3x"}},
		"nor one of a rolled back savepoint": {joined(messages{begin(100), two(), insert(tOID, "1x"), commit(100)},
			block(7, true, of(8, one()), of(8, insert(tOID, "2"))), messages{streamAbort(7, 8)},
			block(7, false, of(7, two()), of(7, insert(tOID, "3x"))), messages{streamCommit(7, 200), begin(300), insert(tOID, "4x"), commit(300)}),
			[]string{"tx 1x", "tx 3x", "tx 4x"}},
		"changes in the order they were made": {joined(messages{begin(100), one(), insert(tOID, "1"), commit(100)},
			block(7, true, of(7, one()), of(7, insert(tOID, "2")), of(7, two()), of(7, insert(tOID, "3x"))),
			block(7, false, of(7, table(tOID, 'd', "id*", "b")), of(7, insert(tOID, "4y"))), messages{streamCommit(7, 200)}),
			[]string{"tx 1", columnsAdded, columnsChanged, "tx 2 3x 4y"}},
		"another transaction's shape reaches a later block": {joined(
			block(7, true, of(7, table(tOID+1, 'd', "id*")), of(7, insert(tOID+1, "1"))), block(8, true, of(8, one()), of(8, insert(tOID, "2"))),
			block(8, false, of(8, two()), of(8, insert(tOID, "3x"))), messages{streamCommit(8, 100)},
			block(7, false, of(7, two()), of(7, insert(tOID, "4x"))), messages{streamCommit(7, 200)}),
			[]string{columnsAdded, "tx 2 3x", "tx 1 4x"}},
		"a newer description is in force again behind an older one": {joined(
			block(7, true, of(7, one()), of(7, insert(tOID, "1"))),
			messages{begin(100), two(), insert(tOID, "2x"), commit(100), streamCommit(7, 200), begin(300), insert(tOID, "3x"), commit(300)}),
			[]string{"tx 2x", columnsDropped, "tx 1", columnsAdded, "tx 3x"}},
		"unless the transaction described it once more": {joined(
			block(7, true, of(7, one()), of(7, insert(tOID, "1"))), messages{begin(100), two(), insert(tOID, "2x"), commit(100)},
			block(7, false, of(7, two()), of(7, insert(tOID, "3x"))), messages{streamCommit(7, 200), begin(300), insert(tOID, "4x"), commit(300)}),
			[]string{"tx 2x", columnsDropped, columnsAdded, "tx 1 3x", "tx 4x"}},
		"and then its last word is in force": {joined(
			block(7, true, of(7, one()), of(7, insert(tOID, "1"))), messages{begin(100), two(), insert(tOID, "2x"), commit(100)},
			block(7, false, of(7, table(tOID, 'd', "id*", "b", "c")), of(7, insert(tOID, "3yz"))), messages{streamCommit(7, 200), begin(300), insert(tOID, "4yz"), commit(300)}),
			[]string{"tx 2x", columnsDropped, columnsAdded, "tx 1 3yz", "tx 4yz"}},
		"a description that came again is newer": {joined(messages{begin(50), one(), insert(tOID, "0"), commit(50)},
			block(7, true, of(7, two()), of(7, insert(tOID, "1x"))), messages{begin(100), one(), insert(tOID, "2"), commit(100), streamCommit(7, 200), begin(300), insert(tOID, "3"), commit(300)}),
			[]string{"tx 0", "tx 2", columnsAdded, "tx 1x", columnsDropped, "tx 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, tell(t, Options{}, c.messages...))
			spill := &memorySpill{}
			require.Equal(t, c.want, tell(t, Options{Resident: 1, Spill: spill}, c.messages...))
			require.Zero(t, spill.open)
			if name != "nothing in it" {
				require.NotZero(t, spill.blocks)
			}
		})
	}
}

func TestStreamIdentity(t *testing.T) {
	a := New(Options{})
	origin := originOf("up stream")
	push(t, a, streamFirst(7), origin, of(8, one()), of(8, insert(tOID, "1")), streamStop(), streamCommit(7, 100))
	tx, open := a.Open()
	require.True(t, open)
	require.Equal(t, core.Transaction{XID: 7, CommitLSN: 100, CommitTime: pgoutput.Time(100), Origin: "up stream"}, *tx)
	for a.Replaying() {
		_, err := a.Replay()
		require.NoError(t, err)
	}
	got, _ := a.Take()
	require.Equal(t, core.LSN(110), got.EndLSN)
	require.Len(t, got.Changes, 1)
	require.Equal(t, got.Changes[0].EncodedMax(), got.Size)
}

func TestStreamHalts(t *testing.T) {
	inBlock := joined(messages{streamFirst(7), of(7, one()), of(7, insert(tOID, "1"))})
	closed := append(inBlock[:len(inBlock):len(inBlock)], streamStop())
	for _, c := range []struct {
		name  string
		code  core.HaltCode
		lead  messages // accepted
		fault pgoutput.Message
	}{
		{"start in a block", core.HaltBadFraming, inBlock, streamFirst(8)},
		{"start in a transaction", core.HaltBadFraming, messages{begin(100)}, streamFirst(8)},
		{"a second first block", core.HaltBadFraming, closed, streamFirst(7)},
		{"a later block first", core.HaltBadFraming, nil, streamStart(7)},
		{"stop alone", core.HaltBadFraming, nil, streamStop()},
		{"stop twice", core.HaltBadFraming, closed, streamStop()},
		{"stop in a transaction", core.HaltBadFraming, messages{begin(100)}, streamStop()},
		{"commit of nobody", core.HaltBadFraming, closed, streamCommit(8, 100)},
		{"commit in a block", core.HaltBadFraming, inBlock, streamCommit(7, 100)},
		{"commit in a transaction", core.HaltBadFraming, append(closed[:len(closed):len(closed)], begin(50)), streamCommit(7, 100)},
		{"commit that ends where it starts", core.HaltBadFraming, closed, pgoutput.Message{Kind: pgoutput.KindStreamCommit, XID: 7, LSN: 100, EndLSN: 100}},
		{"commit that does not rise", core.HaltBadFraming, append(closed[:len(closed):len(closed)], logical(false, 110, "p", "c")), streamCommit(7, 100)},
		{"abort in a block", core.HaltBadFraming, inBlock, streamAbort(7, 7)},
		{"abort in a transaction", core.HaltUnsupportedMessage, messages{begin(100)}, streamAbort(7, 7)},
		{"Begin in a block", core.HaltBadFraming, inBlock, begin(100)},
		{"Commit in a block", core.HaltBadFraming, inBlock, commit(100)},
		{"a message without transaction in a block", core.HaltBadFraming, inBlock, of(7, logical(false, 50, "p", "c"))},
		{"a row without id in a block", core.HaltBadFraming, inBlock, insert(tOID, "1")},
		{"origin behind a row", core.HaltBadFraming, inBlock, originOf("o")},
		{"origin in a later block", core.HaltBadFraming, append(closed[:len(closed):len(closed)], streamStart(7)), originOf("o")},
		{"origin twice", core.HaltBadFraming, messages{streamFirst(7), originOf("o")}, originOf("o")},
		{"origin between blocks", core.HaltBadFraming, closed, originOf("o")},
		{"two-phase in a block", core.HaltBadFraming, inBlock, pgoutput.Message{Kind: pgoutput.KindPrepare}},
		{"two-phase between blocks", core.HaltUnsupportedMessage, closed, pgoutput.Message{Kind: pgoutput.KindStreamPrepare}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := New(Options{})
			push(t, a, c.lead...)
			step, err := a.Push(&c.fault)
			require.Equal(t, StepNone, step)
			halt, ok := core.AsHalt(err)
			require.True(t, ok)
			require.Equal(t, c.code, halt.Code, halt.Error())
			if len(c.lead) == len(inBlock) {
				require.EqualValues(t, 7, halt.XID)
			}
			good := begin(10_000)
			_, again := a.Push(&good)
			require.Same(t, err, again)
		})
	}
}
