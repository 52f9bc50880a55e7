package incremental

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// copiesAll brings the run to its end, and gives the first unit of each table.
func copiesAll(t *testing.T, r *Run, relation *core.Relation) (first map[uint32]*core.SnapshotUnit) {
	t.Helper()
	first = map[uint32]*core.SnapshotUnit{}
	for r.Active() {
		for job, ok := r.Next(); ok; job, ok = r.Next() {
			switch job.Kind {
			case JobLook:
				shape := *relation
				shape.OID, shape.Name = job.Table.OID, job.Table.Name
				r.Looked(Look{ID: job.ID, Found: true, Member: job.Table, Relation: &shape})
			case JobChunk:
				shape := *relation
				shape.OID, shape.Name = job.Table.OID, job.Table.Name
				require.NoError(t, r.Read(Read{ID: job.ID, Relation: &shape, Snapshot: Snapshot{Max: 9}, High: 1}))
			default:
				require.Fail(t, "another job", "%d", job.Kind)
			}
		}
		r.Frontier(1)
		step := r.Take()
		require.NotNil(t, step)
		u := r.Unit(step)
		require.LessOrEqual(t, len(u.Token), tokenMax)
		if step.Clears() {
			first[step.table.OID] = u
		}
		r.Stored(step)
	}
	return first
}

// TestTablesThatComeAndGo: the tables of a publication are others every day. The token remembers
// some that are gone, so there is always room for those that are there; and since it may have
// forgotten whose rows the sink has, a table that comes later is emptied there first.
func TestTablesThatComeAndGo(t *testing.T) {
	_, relation := keyed(t, nil)
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Complete: true}, Settings{}, epoch)
	for i := range uint32(1000) {
		require.NoError(t, r.Listed([]Member{keyedMember(i + 1)}, [16]byte{9}), "table %d", i+1)
		first := copiesAll(t, r, relation)
		reset := core.ResetSnapshotRows
		if i > goneMost+1 {
			reset = core.ResetAll
		}
		require.Equal(t, reset, first[i+1].Reset, "table %d", i+1)
		require.LessOrEqual(t, len(r.tables), goneMost+2)
		require.Len(t, r.byOID, len(r.tables))
	}
	state := stored(t, r, r.Note())
	require.True(t, state.Forgot)
	require.Len(t, state.Tables, goneMost+1)

	// The first of them is back, under a start from that token.
	r = New(*state, Settings{}, epoch)
	require.NoError(t, r.Listed([]Member{keyedMember(1000), keyedMember(1)}, [16]byte{10}))
	require.Equal(t, core.ResetAll, copiesAll(t, r, relation)[1].Reset)
}

// TestManyTablesGiveWayToMany: those that are gone take no room from those that are there, also
// while they cannot be forgotten.
func TestManyTablesGiveWayToMany(t *testing.T) {
	all := many(6000)
	for name, high := range map[string]core.LSN{"forgotten": 0, "not yet": 5} {
		r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Complete: true}, Settings{}, epoch)
		require.NoError(t, r.Listed(all[:3000], [16]byte{9}))
		for _, m := range r.tables {
			m.status, m.high = Done, high
		}
		require.NoError(t, r.Listed(all[3000:], [16]byte{9}), name)
		require.Equal(t, high == 0, len(r.tables) == 3000+goneMost, name)
		require.Error(t, r.Listed(all, [16]byte{9}), "so many at once are too many still")
	}
}

// TestGoneAndNotForgotten: what a table that is gone is needed for.
func TestGoneAndNotForgotten(t *testing.T) {
	many := func() (state State) {
		state = State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Complete: true}
		for i := range uint32(goneMost + 2) {
			state.Tables = append(state.Tables, Table{Member: keyedMember(i + 1), Status: Gone})
		}
		return state
	}
	known := func(r *Run, oid uint32) bool { return r.byOID[oid] != nil }

	r := New(many(), Settings{}, epoch)
	require.NoError(t, r.Listed(nil, [16]byte{}))
	require.False(t, known(r, 1) || known(r, 2))
	require.True(t, known(r, 3))
	require.True(t, r.state.Forgot)

	// The stream may still bring a transaction that the copy of the table has.
	state := many()
	state.Tables[0].Key, state.Tables[0].KeyTypes, state.Tables[0].KeyCollations = nil, nil, nil
	state.Tables[0].Shown, state.Tables[0].High = Snapshot{Min: 20, Max: 20}, 100
	for from, kept := range map[core.LSN]bool{99: true, 100: false} {
		r := New(state, Settings{From: from}, epoch)
		require.NoError(t, r.Listed(nil, [16]byte{}))
		require.Equal(t, kept, known(r, 1), "%d", from)
		require.False(t, known(r, 2))
	}
	r = New(state, Settings{From: 50}, epoch)
	r.Committed(12, 150)
	require.NoError(t, r.Listed(nil, [16]byte{}))
	require.True(t, known(r, 1), "received, and not durable")
	r.Durable(150)
	require.NoError(t, r.Listed(nil, [16]byte{}))
	require.True(t, known(r, 1), "it is one of a few")
	r.put(newTable(Table{Member: keyedMember(900), Status: Gone}, r.set))
	require.NoError(t, r.Listed(nil, [16]byte{}))
	require.False(t, known(r, 1))

	// A unit of it is on its way.
	r = New(many(), Settings{}, epoch)
	r.tables[0].chunks = 1
	r.step = &Step{kind: stepLast, table: r.tables[1]}
	require.NoError(t, r.Listed(nil, [16]byte{}))
	require.True(t, known(r, 1) && known(r, 2))
	require.False(t, known(r, 3) || known(r, 4))
}

// TestTokenOfBefore: one that was written before anything could be forgotten is read as it was.
func TestTokenOfBefore(t *testing.T) {
	want := example()
	token := want.Encode()
	want.Forgot = true
	forgot := want.Encode()
	require.Len(t, forgot, len(token), "a bit of a number that was there")
	got, err := Decode(forgot)
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = Decode(token)
	require.NoError(t, err)
	require.False(t, got.Forgot)
}
