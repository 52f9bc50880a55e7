package assembler

import (
	"errors"
	"io"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/stretchr/testify/require"
)

// Faults that show only when the transaction is replayed.
func TestReplayHalts(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   core.HaltCode
		before messages
		inside messages
	}{
		{"a relation that only others described", core.HaltUnknownRelation, messages{begin(50), one(), insert(tOID, "1"), commit(50)}, messages{of(7, insert(tOID, "1"))}},
		{"a truncate of one", core.HaltUnknownRelation, messages{begin(50), one(), insert(tOID, "1"), commit(50)}, messages{of(7, truncateOf(tOID))}},
		{"a row too wide", core.HaltMalformedStream, nil, messages{of(7, one()), of(7, insert(tOID, "1x"))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := New(Options{})
			push(t, a, joined(c.before[:max(0, len(c.before)-1)])...)
			if len(c.before) > 0 {
				push(t, a, c.before[len(c.before)-1])
				a.Take()
			}
			push(t, a, joined(block(7, true, c.inside...), messages{streamCommit(7, 100)})...)
			var err error
			for err == nil {
				require.True(t, a.Replaying())
				_, err = a.Replay()
			}
			halt, ok := core.AsHalt(err)
			require.True(t, ok)
			require.Equal(t, c.code, halt.Code, halt.Error())
			require.EqualValues(t, 7, halt.XID)
			require.EqualValues(t, 100, halt.LSN)
			_, again := a.Replay()
			require.Same(t, err, again)
		})
	}
}

func TestReplayIsToBeCalledInItsTurn(t *testing.T) {
	requireInvariant := func(_ Step, err error) {
		t.Helper()
		halt, ok := core.AsHalt(err)
		require.True(t, ok)
		require.Equal(t, core.HaltInvariant, halt.Code)
	}
	a := New(Options{})
	requireInvariant(a.Replay())
	a = New(Options{})
	push(t, a, joined(block(7, true), messages{streamCommit(7, 100)})...)
	m := begin(200)
	requireInvariant(a.Push(&m))
	// The commit must be taken before older descriptions are put aside again.
	a = New(Options{})
	push(t, a, joined(block(7, true, of(7, one()), of(7, insert(tOID, "1"))), messages{begin(50), two(), insert(tOID, "2x"), commit(50)})...)
	a.Take()
	push(t, a, streamCommit(7, 100))
	for step := StepNone; step != StepCommit; {
		var err error
		step, err = a.Replay()
		require.NoError(t, err)
	}
	require.True(t, a.Replaying())
	requireInvariant(a.Replay())
	a = New(Options{})
	a.Close()
	requireInvariant(a.Push(&m))
}

// A message written behind a savepoint comes under the top's id, so an abort of any
// savepoint leaves its fate open.
func TestMessagesAndSavepointsAreUnclear(t *testing.T) {
	a := New(Options{})
	push(t, a, joined(block(7, true, of(7, logical(true, 50, "p", "c"))), block(9, true), messages{streamAbort(9, 10), streamAbort(9, 9)})...)
	m := streamAbort(7, 8)
	_, err := a.Push(&m)
	require.ErrorIs(t, err, ErrUnclear)
	halt, ok := core.AsHalt(err)
	require.True(t, ok)
	require.EqualValues(t, 7, halt.XID)
	// The whole transaction may go.
	a = New(Options{})
	push(t, a, joined(block(7, true, of(7, logical(true, 50, "p", "c"))), messages{streamAbort(7, 7)})...)
}

// What was learned of partitions stays with the description that is put back in force.
func TestKeptLeavesOfANewerDescription(t *testing.T) {
	root, leaf := table(tOID, 'f', "id*", "a*"), table(tOID+1, 'd', "id*", "a")
	s := &story{t: t, a: New(Options{})}
	s.push(joined(
		block(7, true, of(7, table(tOID, 'f', "id*")), of(7, insert(tOID, "1"))),
		messages{begin(100), root, leaf, insert(tOID, "2x"), commit(100), streamCommit(7, 200), begin(300), remove(tOID, 'O', "3n")})...)
	tx, _ := s.a.Open()
	require.Equal(t, core.OldKey, tx.Changes[0].OldKind)
	require.Equal(t, "3.", letters(tx.Changes[0].Old))
}

// A description at the end of a stream is no leaf of the row that follows elsewhere.
func TestADescriptionAtTheEndOfAStreamIsNoLeaf(t *testing.T) {
	s := &story{t: t, a: New(Options{})}
	s.push(joined(messages{begin(50), table(tOID, 'f', "id*", "a*"), insert(tOID, "1x"), commit(50)},
		block(7, true, of(7, table(tOID+1, 'd', "id*", "a")), of(8, insert(tOID+1, "1x"))),
		messages{streamAbort(7, 8), streamCommit(7, 200), begin(300), remove(tOID, 'O', "3n")})...)
	tx, _ := s.a.Open()
	require.Equal(t, core.OldFull, tx.Changes[0].OldKind)
}

func TestCatalogFactsOfTheCommit(t *testing.T) {
	a := New(Options{})
	said := *one().Relation
	said.Columns = []core.Column{{Name: "id", TypeOID: 25, TypeModifier: -1, Identity: true, PrimaryKeyPosition: 1, TypeName: "text"}}
	end := streamCommit(7, 100)
	end.Relations = []*core.Relation{two().Relation, &said}
	push(t, a, joined(block(7, true, of(7, one()), of(7, insert(tOID, "1"))), messages{end})...)
	for a.Replaying() {
		_, err := a.Replay()
		require.NoError(t, err)
	}
	tx, _ := a.Take()
	require.Equal(t, said, *tx.Changes[0].Relation)
	require.NotSame(t, &said, tx.Changes[0].Relation)
}

// errBroken stands for what a Spill may say beside a halt.
var errBroken = errors.New("broken")

type brokenFile struct {
	SpillFile
	next func(f SpillFile) ([]byte, error)
}

func (b brokenFile) Next() ([]byte, error) { return b.next(b.SpillFile) }

type brokenSpill struct {
	*memorySpill
	next func(f SpillFile) ([]byte, error)
}

func (b brokenSpill) Create() (SpillFile, error) {
	f, err := b.memorySpill.Create()
	return brokenFile{f, b.next}, err
}

// What comes back from a file is not believed.
func TestBrokenSpillHalts(t *testing.T) {
	blocks := 0
	for name, next := range map[string]func(f SpillFile) ([]byte, error){
		"an error":       func(SpillFile) ([]byte, error) { return nil, errBroken },
		"an early end":   func(SpillFile) ([]byte, error) { return nil, io.EOF },
		"a lost block":   func(f SpillFile) ([]byte, error) { b, err := f.Next(); return skipped(f, b, err, &blocks) },
		"a cut block":    func(f SpillFile) ([]byte, error) { b, err := f.Next(); return b[:max(0, len(b)-1)], err },
		"half a header":  func(f SpillFile) ([]byte, error) { b, err := f.Next(); return b[:min(len(b), 5)], err },
		"another letter": func(f SpillFile) ([]byte, error) { b, err := f.Next(); return set(b, frameHeader, '?'), err },
		"no letter":      func(f SpillFile) ([]byte, error) { b, err := f.Next(); return set(b, frameHeader-1, 0), err },
	} {
		t.Run(name, func(t *testing.T) {
			spill := brokenSpill{&memorySpill{}, next}
			a := New(Options{Resident: 1, Spill: spill})
			push(t, a, joined(block(7, true, of(7, one()), of(7, insert(tOID, "1")), of(7, insert(tOID, "2"))), messages{streamCommit(7, 100)})...)
			var err error
			for err == nil {
				require.True(t, a.Replaying(), "it must not come to its end")
				_, err = a.Replay()
			}
			halt, ok := core.AsHalt(err)
			require.True(t, ok)
			require.Equal(t, core.HaltSpillFailed, halt.Code)
			a.Close()
			require.Zero(t, spill.open)
		})
	}
}

// skipped loses the third block, which is the first row.
func skipped(f SpillFile, b []byte, err error, blocks *int) ([]byte, error) {
	if *blocks++; *blocks == 3 {
		return f.Next()
	}
	return b, err
}

func set(b []byte, at int, to byte) []byte {
	if at < len(b) {
		b[at] = to
	}
	return b
}

func TestSpillThatRefusesHalts(t *testing.T) {
	row := of(7, insert(tOID, "1"))
	for want, o := range map[core.HaltCode]Options{
		core.HaltSpillExhausted: {Resident: 1},
		core.HaltSchemaRefused:  {Resident: 1, Spill: &memorySpill{fail: core.NewHalt(core.HaltSchemaRefused, "", "a code of its own")}},
		core.HaltSpillFailed:    {Resident: 1, Spill: &memorySpill{fail: errBroken}},
	} {
		a := New(o)
		push(t, a, streamFirst(7))
		_, err := a.Push(&row)
		halt, ok := core.AsHalt(err)
		require.True(t, ok)
		require.Equal(t, want, halt.Code)
		require.NotContains(t, halt.Error(), errBroken.Error())
		a.Close()
		if s, ok := o.Spill.(*memorySpill); ok {
			require.Zero(t, s.open)
		}
	}
}
