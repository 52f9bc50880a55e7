package incremental

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func keyedMember(oid uint32) Member {
	return Member{
		OID: oid, Schema: "s", Name: fmt.Sprint("t", oid), Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 1"}, Identity: core.IdentityDefault,
	}
}

// TestRepairsAlone: a run beside which nothing is copied looks at the publications once, knows
// their tables as done, those that came or came back too, and has nothing to do until a
// change leaves a row without a column.
func TestRepairsAlone(t *testing.T) {
	gone := Table{Member: keyedMember(3), Status: Gone}
	for name, state := range map[string]State{
		"no token": {Generation: 1, Kind: KindRepair, Floor: 1, Complete: true},
		"a token": {Generation: 4, Kind: KindInitial, Floor: 1, Complete: true, Listed: true, Tables: []Table{
			{Member: keyedMember(1), Status: Done}, gone,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(state, Settings{Repairs: true}, epoch)
			relation := &core.Relation{OID: 2, Schema: "s", Name: "t2", Identity: core.IdentityDefault, Columns: []core.Column{{Name: "k", Identity: true}, {Name: "v"}}}
			change := moves(relation, "1", "2")
			require.True(t, r.Unknown([]core.Change{*change}))
			require.False(t, r.Knows())
			job, ok := r.Next()
			require.True(t, ok)
			require.Equal(t, JobList, job.Kind)
			require.True(t, job.Partly)
			require.NoError(t, r.Listed([]Member{keyedMember(1), keyedMember(2), keyedMember(3)}, [16]byte{9}))
			require.False(t, r.Unknown([]core.Change{*change}))
			r.Relist()
			_, ok = r.Next()
			require.False(t, ok)
			require.False(t, r.Active())
			require.False(t, r.NoteDue())
			require.Nil(t, r.Take())
			for _, table := range r.Tables() {
				require.Equal(t, Done, table.Status)
			}

			r.Change(change, false)
			require.False(t, r.NoteDue(), "it comes for the first time")
			r.Change(change, true)
			require.True(t, r.NoteDue())
			token := stored(t, r, r.Note())
			require.Equal(t, KindRepair, token.Kind)
			require.Equal(t, state.Generation, token.Generation)
			require.False(t, token.Whole())
			for _, table := range token.Tables {
				require.Empty(t, table.Ranges)
				require.Equal(t, table.OID == 2, len(table.Repair) == 1)
			}
		})
	}
}

// TestRepairsOfTooManyTables: where a token could not hold them, none is repaired, and what is
// left of a run before is not given up.
func TestRepairsOfTooManyTables(t *testing.T) {
	var members []Member
	for i := range 20_000 {
		members = append(members, keyedMember(uint32(i+1)))
	}
	r := New(State{Generation: 1, Kind: KindRepair, Floor: 1, Complete: true}, Settings{Repairs: true}, epoch)
	require.Error(t, r.Listed(members, [16]byte{}))
	require.Empty(t, r.Tables())
	r.Change(moves(&core.Relation{OID: 2}, "1", "2"), true)
	require.False(t, r.NoteDue())
}

// TestDoubtMakesARunThatRepairs: a transaction in pieces that comes again makes every table
// doubtful, and a start beside which nothing is copied may go on with that.
func TestDoubtMakesARunThatRepairs(t *testing.T) {
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Complete: true, Listed: true, Tables: []Table{{Member: keyedMember(1), Status: Done}}},
		Settings{Repairs: true}, epoch)
	r.Began(12)
	require.Nil(t, r.Doubt(false))
	note := r.Doubt(true)
	require.NotNil(t, note)
	state := stored(t, r, note)
	require.False(t, state.Whole())
	require.True(t, state.Repairing())
}

// TestRunThatCopiesIsNoRepair: a table that is added while rows are repaired makes it a run
// that copies.
func TestRunThatCopiesIsNoRepair(t *testing.T) {
	r := New(State{Generation: 1, Kind: KindRepair, Floor: 1, Listed: true, Tables: []Table{{Member: keyedMember(1), Status: Copying, Repair: []Key{{"1"}}}}}, Settings{}, epoch)
	require.NoError(t, r.Listed([]Member{keyedMember(1), keyedMember(2)}, [16]byte{}))
	require.Equal(t, KindAdded, r.state.Kind)
}
