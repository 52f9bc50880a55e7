package incremental

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func example() *State {
	return &State{
		RunID: [16]byte{1, 2}, Generation: 3, Kind: KindAgain, Floor: 77, Listed: true, Paused: true,
		Source: Source{SystemIdentifier: "7", Timeline: 2, Database: "d", Slot: "s"},
		Tables: []Table{
			{
				Member: Member{OID: 9, Schema: "a.b", Name: `c"d`, Key: []string{"x", "y"}, KeyTypes: []uint32{23, 25}, KeyCollations: []string{"", "100 2.36"}, Identity: core.IdentityFull, Filtered: true, Alone: true},
				Status: Copying, Sweep: true, Suspect: true, Rows: 5,
				Ranges: []Range{{Hi: Key{"1", ""}}, {Lo: Key{"1", ""}, Hi: Key{"9", "z"}}, {Lo: Key{"9", "z"}}},
				Repair: []Key{{"4", "k"}},
			},
			{
				Member: Member{OID: 10, Schema: "s", Name: "t", Identity: core.IdentityNothing}, Status: Done,
				Shown: Snapshot{Min: 5, Max: 1 << 40, Running: []uint64{6, 1 << 35}}, High: 99,
			},
		},
	}
}

func TestTokenComesBack(t *testing.T) {
	want := example()
	got, err := Decode(want.Encode())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestTokenOfACopyBefore: it has nothing but who began a copy, and leaves nothing to copy. One
// that has more is none of ours.
func TestTokenOfACopyBefore(t *testing.T) {
	want := State{RunID: [16]byte{1}, Generation: 1, Kind: KindBefore, Complete: true, Source: Source{SystemIdentifier: "7", Timeline: 2, Database: "d", Slot: "s"}}
	got, err := Decode(want.Encode())
	require.NoError(t, err)
	require.Equal(t, &want, got)
	require.True(t, got.BeforeStream())
	require.True(t, got.Whole())
	require.False(t, example().BeforeStream())
	for name, spoil := range map[string]func(*State){
		"not complete": func(s *State) { s.Complete = false }, "listed": func(s *State) { s.Listed = true },
		"paused": func(s *State) { s.Paused = true }, "tables": func(s *State) { s.Tables = example().Tables },
		"no such kind": func(s *State) { s.Kind = kindEnd },
	} {
		s := want
		spoil(&s)
		_, err := Decode(s.Encode())
		halt, ok := core.AsHalt(err)
		require.True(t, ok, name)
		require.Equal(t, core.HaltProgressInvalid, halt.Code)
	}
}

// FuzzDecode: what is read is what Encode writes, and anything else is refused, also where its
// checksum is right.
func FuzzDecode(f *testing.F) {
	before := State{RunID: [16]byte{1}, Generation: 1, Kind: KindBefore, Complete: true}
	for _, s := range []*State{example(), &before, {Generation: 1, Kind: KindInitial}} {
		token := s.Encode()
		f.Add(token[:len(token)-tokenSum])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		s, err := Decode(append(bytes.Clone(body), sum[:tokenSum]...))
		if err != nil {
			halt, ok := core.AsHalt(err)
			require.True(t, ok)
			require.Equal(t, core.HaltProgressInvalid, halt.Code)
			return
		}
		again, err := Decode(s.Encode())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

// TestTamperedTokenHalts: no bit of a token can change unseen, and no part of it be missing.
func TestTamperedTokenHalts(t *testing.T) {
	token := example().Encode()
	check := func(bad []byte) {
		_, err := Decode(bad)
		halt, ok := core.AsHalt(err)
		require.True(t, ok)
		require.Equal(t, core.HaltProgressInvalid, halt.Code)
	}
	for i := range token {
		bad := append([]byte(nil), token...)
		bad[i] ^= 1
		check(bad)
		check(token[:i])
	}
	check(append(append([]byte(nil), token...), 0))
	check([]byte{})
}

func TestVisible(t *testing.T) {
	s, ok := ParseSnapshot("4294967290:4294967300:4294967295,4294967298")
	require.True(t, ok)
	for xid, want := range map[uint32]bool{
		4294967289: true, 4294967295: false, 4294967294: true, // below the wrap
		0: true, 2: false, 3: true, 4: false, 1 << 30: false, // above it
	} {
		require.Equal(t, want, s.Visible(xid), "%d", xid)
	}
	for _, bad := range []string{"", "1:2", "2:1:", "1:2:x", "1:2:3:4", "x:2:"} {
		_, ok := ParseSnapshot(bad)
		require.False(t, ok, bad)
	}
}

func TestHighMark(t *testing.T) {
	const block, segment = 8192, 16 << 20
	for at, want := range map[core.LSN]core.LSN{
		segment + 40: segment, segment + 24: segment + 24, segment + block + 24: segment + block,
		segment + block + 40: segment + block + 40, 100: 100, segment: segment,
	} {
		require.Equal(t, want, HighMark(at, block, segment), "%s", at)
	}
}

func TestWhatTwoThingsComeTo(t *testing.T) {
	u := core.Value{Kind: core.ValueUnchanged}
	image := func(values ...core.Value) entry { return entry{what: partial, image: core.PackTuple(values...)} }
	e := image(core.Text("k"), core.Text("a1"), u).then(image(core.Text("k"), u, core.Text("b2")))
	require.Equal(t, partial, e.what)
	require.Equal(t, core.PackTuple(core.Text("k"), core.Text("a1"), core.Text("b2")), e.image)
	for first, want := range map[what]what{nothing: partial, full: full, deleted: deleted, hole: hole} {
		require.Equal(t, want, entry{what: first}.then(image(u)).what)
	}
	for _, last := range []what{full, deleted, hole} {
		require.Equal(t, last, image(u).then(entry{what: last}).what)
		require.Equal(t, last, entry{what: hole}.then(entry{what: last}).what)
	}
	require.Equal(t, core.PackTuple(core.Text("n"), core.Null(), core.Text("r")),
		merged(core.PackTuple(core.Text("n"), core.Null(), u), core.PackTuple(core.Text("o"), core.Text("p"), core.Text("r"))))
}

var epoch = time.Unix(0, 0)

// keyed is a run in the middle of a table whose key is column 0 and whose column 1 may be
// missing.
func keyed(t *testing.T, ranges []Range) (*Run, *core.Relation) {
	t.Helper()
	relation := &core.Relation{OID: 7, Schema: "s", Name: "t", Identity: core.IdentityDefault, Columns: []core.Column{{Name: "k", Identity: true}, {Name: "v"}}}
	m := Member{OID: 7, Schema: "s", Name: "t", Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 1"}, Identity: core.IdentityDefault}
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{{Member: m, Status: Copying, Ranges: ranges}}}, Settings{}, epoch)
	job, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, JobLook, job.Kind)
	r.Looked(Look{ID: job.ID, Found: true, Member: m, Relation: relation})
	return r, relation
}

func moves(relation *core.Relation, from, to string) *core.Change {
	return &core.Change{
		Op: core.OpUpdate, Relation: relation, OldKind: core.OldKey,
		Old: core.PackTuple(core.Text(from), core.Value{Kind: core.ValueAbsent}),
		New: core.PackTuple(core.Text(to), core.Value{Kind: core.ValueUnchanged}),
	}
}

// stored sends a step and gives the state of its token.
func stored(t *testing.T, r *Run, s *Step) *State {
	t.Helper()
	state, err := Decode(r.Unit(s).Token)
	require.NoError(t, err)
	r.Stored(s)
	return state
}

func TestKeysOnTheRepairList(t *testing.T) {
	r, relation := keyed(t, Everything())
	require.False(t, r.NoteDue())
	r.Change(moves(relation, "1", "2"), false)
	require.True(t, r.NoteDue(), "before the transaction goes")
	require.Equal(t, []Key{{"2"}}, stored(t, r, r.Note()).Tables[0].Repair)
	require.False(t, r.NoteDue())

	job, _ := r.Next() // the range
	require.Equal(t, JobChunk, job.Kind)
	require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Snapshot: Snapshot{Max: 9}, High: 5}))
	r.Frontier(5)
	require.Equal(t, []Key{{"2"}}, stored(t, r, r.Take()).Tables[0].Repair)

	// All ranges are there: a row that comes from a whole one is whole.
	r.Change(moves(relation, "8", "9"), false)
	require.False(t, r.NoteDue())
	r.Change(moves(relation, "2", "3"), false)
	require.True(t, r.NoteDue(), "one that comes from a key of the list is not")
	require.ElementsMatch(t, []Key{{"2"}, {"3"}}, stored(t, r, r.Note()).Tables[0].Repair)
	require.Nil(t, r.Take(), "the table is not done while a key is left")

	job, ok := r.Next()
	require.True(t, ok)
	require.Len(t, job.Keys, 2)
	require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Snapshot: Snapshot{Max: 9}, High: 6}))
	r.Frontier(6)
	taken := r.Take()
	r.Change(moves(relation, "3", "2"), false) // behind the step, and again without its column
	state := stored(t, r, taken)
	require.Equal(t, []Key{{"2"}}, state.Tables[0].Repair, "what came behind the chunk stays")
	require.True(t, r.NoteDue())
	require.Equal(t, []Key{{"2"}}, stored(t, r, r.Note()).Tables[0].Repair)
}

func TestTooManyKeysReadTheWholeTableAgain(t *testing.T) {
	r, relation := keyed(t, []Range{{Lo: Key{"9"}}})
	for i := range repairMax + 1 {
		r.Change(moves(relation, "a", "b"+string(rune('0'+i%10))+time.Unix(int64(i), 0).String()), false)
	}
	require.True(t, r.NoteDue())
	state := stored(t, r, r.Note())
	require.Equal(t, Everything(), state.Tables[0].Ranges)
	require.Less(t, len(state.Tables[0].Repair), repairMax/2, "those from then on alone")
}

// TestDoubtOfATransactionInPieces: its keys are not known ahead of it. A start from the
// token that goes ahead reads everything again.
func TestDoubtOfATransactionInPieces(t *testing.T) {
	r, relation := keyed(t, []Range{{Lo: Key{"9"}}})
	r.Began(12)
	state := stored(t, r, r.Doubt(false))
	require.True(t, state.Tables[0].Suspect)
	require.Equal(t, Everything(), New(*state, Settings{}, epoch).tables[0].ranges)
	r.Change(moves(relation, "1", "2"), false)
	_, ok := r.Next()
	require.False(t, ok, "no window in the middle of it")
	r.Committed(12, 50)
	r.Doubtless()
	require.True(t, r.NoteDue())
	state = stored(t, r, r.Note())
	require.False(t, state.Tables[0].Suspect)
	require.Equal(t, []Key{{"2"}}, state.Tables[0].Repair)
}

// TestUnkeyedTable: what is left out of a transaction, and what waits.
func TestUnkeyedTable(t *testing.T) {
	relation := &core.Relation{OID: 8, Schema: "s", Name: "u", Identity: core.IdentityNothing, Columns: []core.Column{{Name: "v"}}}
	other := &core.Relation{OID: 1, Schema: "s", Name: "o"}
	m := Member{OID: 8, Schema: "s", Name: "u", Identity: core.IdentityNothing}
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{{Member: m, Status: Pending}}}, Settings{}, epoch)
	changes := func() []core.Change {
		return []core.Change{
			{Op: core.OpInsert, Relation: relation}, {Op: core.OpInsert, Relation: other},
			{Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{relation, other}}},
		}
	}
	const in, out = 20, 30 // a transaction that the copy has, and one that it has not
	require.False(t, r.Holds(in, changes()), "nothing is copied: it is in the next copy")
	left := r.Strip(in, 10, changes())
	require.Len(t, left, 2)
	require.Equal(t, []*core.Relation{other}, left[1].Truncate.Relations)

	job, _ := r.Next()
	r.Looked(Look{ID: job.ID, Found: true, Member: m, Relation: relation})
	job, _ = r.Next()
	require.Equal(t, JobCopy, job.Kind)
	require.True(t, r.Holds(in, changes()), "the snapshot is not known")
	r.Copying(job.ID, Snapshot{Min: 20, Max: 25}, 100, relation)
	require.False(t, r.Holds(in, changes()))
	require.Len(t, r.Strip(in, 10, changes()), 2)
	require.True(t, r.Holds(out, changes()))
	require.False(t, r.Holds(out, []core.Change{{Op: core.OpInsert, Relation: other}}), "it touches another table")
	require.True(t, r.HoldsPieces(out))
	require.True(t, r.Pull())
	require.False(t, r.Pull())
	r.Piece(job.ID, nil, true)
	step := r.Take()
	require.True(t, r.Unit(step).First)
	require.Equal(t, core.ResetAll, r.Unit(step).Reset)
	state := stored(t, r, step)

	for _, run := range []*Run{r, New(*state, Settings{}, epoch)} {
		require.False(t, run.Holds(out, changes()))
		require.Len(t, run.Strip(out, 110, changes()), 3)
		require.Len(t, run.Strip(in, 90, changes()), 2, "it was visible, and comes later than the copy")
		require.Len(t, run.Strip(in, 110, changes()), 3, "another transaction of that number")
	}
}

// TestN22StaleChunk: of a chunk that was read before the stream changed its rows.
func TestN22StaleChunk(t *testing.T) {
	r, relation := keyed(t, Everything())
	job, _ := r.Next()
	row := func(k, v string) core.Tuple { return core.PackTuple(core.Text(k), core.Text(v)) }
	read := Read{ID: job.ID, Relation: relation, Rows: []core.Tuple{row("1", "a"), row("5", "b"), row("6", "c"), row("7", "d")}, Snapshot: Snapshot{Max: 9}, High: 9}
	key := func(k string) core.Tuple { return core.PackTuple(core.Text(k), core.Value{Kind: core.ValueAbsent}) }
	r.Change(&core.Change{Op: core.OpUpdate, Relation: relation, New: row("5", "new")}, false)
	require.NoError(t, r.Read(read))
	kept := core.PackTuple(core.Text("1"), core.Value{Kind: core.ValueUnchanged})
	r.Change(&core.Change{Op: core.OpUpdate, Relation: relation, New: kept}, false)
	r.Change(&core.Change{Op: core.OpDelete, Relation: relation, OldKind: core.OldKey, Old: key("6")}, false)
	r.Change(moves(relation, "7", "7007"), false)
	require.Nil(t, r.Take(), "the stream has not come as far as the chunk")
	r.Frontier(9)
	require.Equal(t, []core.Tuple{row("1", "a")}, r.Unit(r.Take()).Rows)

	r, relation = keyed(t, Everything())
	job, _ = r.Next()
	read.ID, read.Relation = job.ID, relation
	require.NoError(t, r.Read(read))
	r.Change(&core.Change{Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{relation}}}, false)
	r.Frontier(9)
	require.Nil(t, r.Take())
	r.At(epoch.Add(time.Hour))
	again, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, Range{}, again.Range, "it is read again")
}

// TestWriterWait: no window before all are visible who held a lock when the table was looked
// at.
func TestWriterWait(t *testing.T) {
	m := Member{OID: 7, Schema: "s", Name: "t", Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 1"}, Identity: core.IdentityDefault}
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{{Member: m, Status: Copying, Ranges: Everything()}}}, Settings{}, epoch)
	job, _ := r.Next()
	r.Looked(Look{ID: job.ID, Found: true, Member: m, Writers: []Writer{{XID: 12, Who: "process 1"}, {XID: 13}}})
	for i, shown := range []Snapshot{{Min: 12, Max: 14, Running: []uint64{12, 13}}, {Min: 12, Max: 15, Running: []uint64{12}}, {Min: 15, Max: 15}} {
		table, writers := r.Waits()
		require.Equal(t, "s.t", table)
		require.Len(t, writers, []int{2, 2, 1}[i])
		r.At(epoch.Add(time.Duration(i+1) * time.Hour))
		job, ok := r.Next()
		require.True(t, ok)
		require.Equal(t, JobSnapshot, job.Kind)
		r.Shown(job.ID, shown, 0)
	}
	job, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, JobChunk, job.Kind)
}

// TestTableThatIsAnotherNow: one that was made anew under the name of a table that is known
// is emptied at the sink before it is copied, and so is one that was away.
func TestTableThatIsAnotherNow(t *testing.T) {
	m := Member{OID: 7, Schema: "s", Name: "t", Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 1"}, Identity: core.IdentityDefault}
	again := m
	again.OID = 8
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Complete: true, Tables: []Table{{Member: m, Status: Done}}}, Settings{}, epoch)
	require.NoError(t, r.Listed([]Member{again}, [16]byte{9}))
	require.Equal(t, []Status{Gone, Pending}, []Status{r.tables[0].status, r.tables[1].status})
	require.True(t, r.tables[1].replace)
	require.EqualValues(t, 2, r.state.Generation)
	require.Equal(t, [16]byte{9}, r.state.RunID)
	require.NoError(t, r.Listed([]Member{m}, [16]byte{10}))
	require.Equal(t, Pending, r.tables[0].status)
	require.True(t, r.tables[0].replace)
}
