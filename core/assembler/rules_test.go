package assembler

import (
	"slices"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/stretchr/testify/require"
)

const tOID = 16400

type messages = []pgoutput.Message

func TestRowImages(t *testing.T) {
	keyed := table(tOID, core.IdentityDefault, "id*", "a", "b")
	full := table(tOID, core.IdentityFull, "id*", "a*", "b*")
	index := table(tOID, core.IdentityIndex, "id", "a*", "b*")
	bare := table(tOID, core.IdentityDefault, "id", "a", "b")
	const leafOID = tOID + 1
	fullLeaf := table(leafOID, core.IdentityFull, "id*", "a*", "b*")
	keyedLeaf := table(leafOID, core.IdentityDefault, "id*", "a", "b")
	indexLeaf := table(leafOID, core.IdentityIndex, "id", "a*", "b")
	for _, c := range []struct {
		name     string
		relation pgoutput.Message
		row      pgoutput.Message
		kind     core.OldKind
		old, new string
	}{
		{"insert", keyed, insert(tOID, "1xn"), core.OldNone, "-", "1xn"},
		{"update, key kept", keyed, update(tOID, "1yz"), core.OldNone, "-", "1yz"},
		{"update, key kept, unchanged value", keyed, update(tOID, "1uz"), core.OldNone, "-", "1uz"},
		{"update, key changed", keyed, updateFrom(tOID, 'K', "1nn", "2yn"), core.OldKey, "1..", "2yn"},
		{"update, key changed, unchanged value", keyed, updateFrom(tOID, 'K', "1nn", "2un"), core.OldKey, "1..", "2un"},
		{"update, stored key unchanged", keyed, updateFrom(tOID, 'K', "1nn", "uyu"), core.OldKey, "1..", "1yu"},
		{"update, two key columns, one unchanged", index, updateFrom(tOID, 'K', "n23", "1u4"), core.OldKey, ".23", "124"},
		{"delete by key", keyed, remove(tOID, 'K', "1nn"), core.OldKey, "1..", "-"},
		{"delete by index", index, remove(tOID, 'K', "n23"), core.OldKey, ".23", "-"},
		{"full update", full, updateFrom(tOID, 'O', "1xn", "1yn"), core.OldFull, "1xn", "1yn"},
		{"full update, unchanged filled", full, updateFrom(tOID, 'O', "1xn", "1uz"), core.OldFull, "1xn", "1xz"},
		{"full update, all unchanged", full, updateFrom(tOID, 'O', "1xy", "uuu"), core.OldFull, "1xy", "1xy"},
		{"full delete", full, remove(tOID, 'O', "1nn"), core.OldFull, "1nn", "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			messages := messages{begin(100), c.relation, c.row, commit(100)}
			requireImages(t, messages, c.relation.Relation, c.kind, c.old, c.new)
		})
	}
	// Under a published root the leaf's identity decides what is in the old image, and the
	// root's how it is labelled.
	for _, c := range []struct {
		name       string
		root, leaf pgoutput.Message
		row        pgoutput.Message
		kind       core.OldKind
		old, new   string
	}{
		{"full leaf, keyed root", keyed, fullLeaf, updateFrom(tOID, 'K', "1xy", "1uz"), core.OldKey, "1..", "1xz"},
		{"full leaf, keyed root, delete", keyed, fullLeaf, remove(tOID, 'K', "1xn"), core.OldKey, "1..", "-"},
		{"full leaf, bare root", bare, fullLeaf, remove(tOID, 'K', "1xn"), core.OldFull, "1xn", "-"},
		{"keyed leaf, bare root", bare, keyedLeaf, remove(tOID, 'K', "1nn"), core.OldKey, "1..", "-"},
		{"index leaf, keyed root", keyed, indexLeaf, remove(tOID, 'K', "nxn"), core.OldKey, ".x.", "-"},
		{"keyed leaf, full root, key kept", full, keyedLeaf, update(tOID, "1uz"), core.OldNone, "-", "1uz"},
		{"keyed leaf, full root", full, keyedLeaf, updateFrom(tOID, 'O', "1nn", "2uz"), core.OldKey, "1..", "2uz"},
		{"keyed leaf, full root, delete", full, keyedLeaf, remove(tOID, 'O', "1nn"), core.OldKey, "1..", "-"},
		{"keyed leaf, full root, no NULL", full, keyedLeaf, remove(tOID, 'O', "1xy"), core.OldFull, "1xy", "-"},
		{"full leaf, full root", full, fullLeaf, remove(tOID, 'O', "1nn"), core.OldFull, "1nn", "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			messages := messages{begin(100), c.root, c.leaf, c.row, commit(100)}
			requireImages(t, messages, c.root.Relation, c.kind, c.old, c.new)
			// The same when the leaf's next row comes after the root was described anew.
			again := c.root
			shape := *c.root.Relation
			shape.Columns = append(slices.Clone(shape.Columns[:1:1]), shape.Columns[1:]...)
			shape.Columns[2].Name = "b2"
			again.Relation = &shape
			messages = append(messages[:3:3], insert(tOID, "123"), again, c.row, commit(100))
			requireImages(t, messages, &shape, c.kind, c.old, c.new)
		})
	}
}

func requireImages(t *testing.T, messages messages, r *core.Relation, kind core.OldKind, old, row string) {
	t.Helper()
	a := New(Options{})
	require.Equal(t, StepCommit, push(t, a, messages...))
	tx, _ := a.Take()
	got := tx.Changes[len(tx.Changes)-1]
	require.Equal(t, kind, got.OldKind)
	require.Equal(t, old, letters(got.Old))
	require.Equal(t, row, letters(got.New))
	require.Same(t, r, got.Relation)
	for _, image := range []core.Tuple{got.Old, got.New} {
		if !image.IsZero() {
			again, err := core.ParseTuple(image.Packed())
			require.NoError(t, err)
			require.Equal(t, image, again)
		}
	}
}

func TestHalts(t *testing.T) {
	keyed := table(tOID, core.IdentityDefault, "id*", "a")
	full := table(tOID, core.IdentityFull, "id*", "a*")
	twice := table(tOID, core.IdentityDefault, "id*", "a", "id")
	for _, c := range []struct {
		name  string
		code  core.HaltCode
		lead  messages // accepted
		fault pgoutput.Message
	}{
		{"Begin inside", core.HaltBadFraming, messages{begin(100)}, begin(200)},
		{"Begin over an untaken one", core.HaltInvariant, messages{begin(100), commit(100)}, begin(200)},
		{"Commit alone", core.HaltBadFraming, nil, commit(100)},
		{"Commit of another LSN", core.HaltBadFraming, messages{begin(100)}, commit(101)},
		{"Commit that ends where it starts", core.HaltBadFraming, messages{begin(100)}, pgoutput.Message{Kind: pgoutput.KindCommit, LSN: 100, EndLSN: 100}},
		{"row outside", core.HaltBadFraming, messages{keyed}, insert(tOID, "1x")},
		{"row before the transaction was taken", core.HaltBadFraming, messages{keyed, begin(100), commit(100)}, insert(tOID, "1x")},
		{"truncate outside", core.HaltBadFraming, messages{keyed}, truncateOf(tOID)},
		{"transactional message outside", core.HaltBadFraming, nil, logical(true, 50, "p", "c")},
		{"message inside", core.HaltBadFraming, messages{begin(100)}, logical(false, 50, "p", "c")},
		{"message that does not rise", core.HaltBadFraming, messages{logical(false, 50, "p", "c")}, logical(false, 50, "p", "c")},
		{"origin outside", core.HaltBadFraming, nil, originOf("o")},
		{"origin twice", core.HaltBadFraming, messages{begin(100), originOf("o")}, originOf("o")},
		{"origin behind a row", core.HaltBadFraming, messages{keyed, begin(100), insert(tOID, "1x")}, originOf("o")},
		{"unknown relation", core.HaltUnknownRelation, messages{keyed, begin(100)}, insert(tOID+1, "1x")},
		{"truncate of unknown relation", core.HaltUnknownRelation, messages{keyed, begin(100)}, truncateOf(tOID, tOID+1)},
		{"new row too narrow", core.HaltMalformedStream, messages{keyed, begin(100)}, insert(tOID, "1")},
		{"new row too wide", core.HaltMalformedStream, messages{keyed, begin(100)}, update(tOID, "1xx")},
		{"old row too narrow", core.HaltMalformedStream, messages{keyed, begin(100)}, remove(tOID, 'K', "1")},
		{"insert with an unchanged key", core.HaltMalformedStream, messages{keyed, begin(100)}, insert(tOID, "ux")},
		{"old key with unchanged", core.HaltMalformedStream, messages{keyed, begin(100)}, updateFrom(tOID, 'K', "un", "1x")},
		{"deleted row with unchanged", core.HaltMalformedStream, messages{full, begin(100)}, remove(tOID, 'O', "1u")},
		{"full update without the old value", core.HaltMalformedStream, messages{full, begin(100)}, updateFrom(tOID, 'O', "1n", "1u")},
		{"key unchanged and not sent", core.HaltMalformedStream, messages{keyed, begin(100)}, update(tOID, "ux")},
		{"key unchanged and NULL in the old key", core.HaltMalformedStream, messages{keyed, begin(100)}, updateFrom(tOID, 'K', "nn", "ux")},
		{"column described twice", core.HaltMalformedStream, nil, twice},
		{"abort inside", core.HaltUnsupportedMessage, messages{begin(100)}, pgoutput.Message{Kind: pgoutput.KindStreamAbort}},
		{"prepare", core.HaltUnsupportedMessage, nil, pgoutput.Message{Kind: pgoutput.KindPrepare}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := New(Options{})
			push(t, a, c.lead...)
			step, err := a.Push(&c.fault)
			require.Equal(t, StepNone, step)
			halt, ok := core.AsHalt(err)
			require.True(t, ok)
			require.Equal(t, c.code, halt.Code, halt.Error())
			if len(c.lead) > 0 && c.lead[len(c.lead)-1].Kind == pgoutput.KindBegin {
				require.EqualValues(t, 100, halt.LSN)
				require.EqualValues(t, 800, halt.XID)
			}
			// The assembler stays halted, whatever comes.
			good := begin(10_000)
			step, again := a.Push(&good)
			require.Equal(t, StepNone, step)
			require.Same(t, err, again)
		})
	}
}

// A commit record may start where the transaction before it ended; positions are end
// LSNs and compared with end LSNs alone.
func TestAdjacentTransactionsAndRisingEnds(t *testing.T) {
	a := New(Options{})
	for _, lsn := range []core.LSN{100, 110, 120} {
		push(t, a, begin(lsn))
		require.Equal(t, StepCommit, push(t, a, commit(lsn)))
		tx, _ := a.Take()
		require.Equal(t, lsn, tx.CommitLSN)
		require.Equal(t, lsn+10, tx.EndLSN)
		require.Empty(t, tx.Changes)
	}
	require.Equal(t, StepMessage, push(t, a, logical(false, 131, "p", "c")))
	for _, again := range []core.LSN{120, 100, 121} {
		b := New(Options{})
		push(t, b, begin(120), commit(120))
		b.Take()
		push(t, b, logical(false, 131, "p", "c"), begin(again))
		m := commit(again)
		_, err := b.Push(&m)
		halt, ok := core.AsHalt(err)
		require.True(t, ok)
		require.Equal(t, core.HaltBadFraming, halt.Code)
	}
}

func TestHeaderOriginAndOpen(t *testing.T) {
	a := New(Options{})
	_, open := a.Open()
	require.False(t, open)
	require.Equal(t, StepBegin, push(t, a, begin(100)))
	require.Equal(t, StepNone, push(t, a, originOf("up stream"), table(tOID, core.IdentityDefault, "id*")))
	tx, open := a.Open()
	require.True(t, open)
	require.Equal(t, core.Transaction{XID: 800, CommitLSN: 100, CommitTime: pgoutput.Time(100), Origin: "up stream"}, *tx)
	push(t, a, insert(tOID, "1"), insert(tOID, "2"))
	tx, _ = a.Open()
	require.Len(t, tx.Changes, 2)
	require.Equal(t, tx.Changes[0].EncodedMax()+tx.Changes[1].EncodedMax(), tx.Size)
	require.Len(t, a.Relations(), 1)
	require.Equal(t, a.Relations()[0].EncodedMax(), a.RelationsSize())
	push(t, a, commit(100))
	_, open = a.Open()
	require.False(t, open)
	whole, _ := a.Take()
	require.EqualValues(t, 110, whole.EndLSN)
	require.Equal(t, "up stream", whole.Origin)
	require.EqualValues(t, 2, a.Count())
	require.Empty(t, a.Relations())
	require.Zero(t, a.RelationsSize())
}

func TestTruncateNamesAllTables(t *testing.T) {
	a := New(Options{})
	one, two := table(tOID, core.IdentityDefault, "id*"), table(tOID+1, core.IdentityDefault, "id*")
	require.Equal(t, StepChange, push(t, a, begin(100), one, two, truncateOf(tOID+1, tOID)))
	push(t, a, commit(100))
	tx, _ := a.Take()
	require.Len(t, tx.Changes, 1)
	require.Equal(t, core.OpTruncate, tx.Changes[0].Op)
	require.Equal(t, &core.Truncate{Relations: []*core.Relation{two.Relation, one.Relation}, Cascade: true}, tx.Changes[0].Truncate)
}

func TestMessagesInsideAndOutside(t *testing.T) {
	a := New(Options{})
	require.Equal(t, StepMessage, push(t, a, logical(false, 50, "outside", "1")))
	require.Equal(t, core.Message{LSN: 50, Prefix: []byte("outside"), Content: []byte("1")}, a.Message())
	inside := logical(true, 100, "inside", "2")
	require.Equal(t, StepChange, push(t, a, table(tOID, core.IdentityDefault, "id*"), begin(100), inside, insert(tOID, "1")))
	clear(inside.Message.Content) // the frame is used again
	push(t, a, commit(100))
	tx, _ := a.Take()
	require.Len(t, tx.Changes, 2)
	require.Equal(t, core.OpMessage, tx.Changes[0].Op)
	require.Equal(t, &core.Message{Transactional: true, LSN: 100, Prefix: []byte("inside"), Content: []byte("2")}, tx.Changes[0].Message)
	require.Equal(t, core.OpInsert, tx.Changes[1].Op)
}

func TestX02AbortBetweenTransactions(t *testing.T) {
	a := New(Options{})
	abort := pgoutput.Message{Kind: pgoutput.KindStreamAbort}
	require.Equal(t, StepCommit, push(t, a, begin(100), commit(100)))
	a.Take()
	require.Equal(t, StepNone, push(t, a, abort))
	require.Equal(t, StepCommit, push(t, a, begin(200), commit(200)))
}

// The large path: pieces are cut while the transaction is open, the end comes with Take.
func TestCuts(t *testing.T) {
	a := New(Options{})
	push(t, a, begin(100), table(tOID, core.IdentityDefault, "id*"), insert(tOID, "1"), insert(tOID, "2"))
	changes, first, m1 := a.TakeChanges()
	require.Len(t, changes, 2)
	require.Zero(t, first)
	tx, open := a.Open()
	require.True(t, open)
	require.Empty(t, tx.Changes)
	require.Zero(t, tx.Size)
	require.Empty(t, a.Relations())

	push(t, a, insert(tOID, "3"))
	require.Len(t, a.Relations(), 1, "each cut names its relations")
	changes2, first, m2 := a.TakeChanges()
	require.EqualValues(t, 2, first)
	require.Equal(t, "3", letters(changes2[0].New))

	none, first, m3 := a.TakeChanges()
	require.Empty(t, none)
	require.EqualValues(t, 3, first)

	push(t, a, insert(tOID, "4"), commit(100))
	rest, m4 := a.Take()
	require.Len(t, rest.Changes, 1)
	require.Equal(t, rest.Changes[0].EncodedMax(), rest.Size)
	require.EqualValues(t, 4, a.Count())
	require.IsIncreasing(t, []Mark{m1, m2, m3, m4})
	require.Equal(t, "1", letters(changes[0].New))
	require.Equal(t, "2", letters(changes[1].New))
}

// Only a description right in front of a row of another relation tells of a leaf.
func TestWhatIsALeafAndWhatIsNot(t *testing.T) {
	full := table(tOID, core.IdentityFull, "id*", "a*")
	other := table(tOID+1, core.IdentityDefault, "id*", "a")
	deleted := remove(tOID, 'O', "1n")
	requireImages(t, messages{begin(100), full, other, truncateOf(tOID, tOID+1), deleted, commit(100)},
		full.Relation, core.OldFull, "1n", "-")
	requireImages(t, messages{begin(100), full, deleted, other, insert(tOID+1, "1x"), deleted, commit(100)},
		full.Relation, core.OldFull, "1n", "-")
	// A table of its own that was attached meanwhile, and is described as before.
	requireImages(t, messages{begin(100), other, insert(tOID+1, "1x"), full, other, deleted, commit(100)},
		full.Relation, core.OldKey, "1.", "-")
}
