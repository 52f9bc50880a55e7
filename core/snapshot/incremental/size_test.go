package incremental

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func many(n int) (members []Member) {
	for i := range n {
		members = append(members, Member{
			OID: uint32(i + 1), Schema: strings.Repeat("s", 63), Name: fmt.Sprint("t", i), Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 1"},
			Identity: core.IdentityDefault,
		})
	}
	return members
}

// TestTokenIsBounded: whatever comes to many tables at once, each token fits, and begins a
// run that reads all that was left.
func TestTokenIsBounded(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 8))
		state := State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true}
		relations := map[uint32]*core.Relation{}
		for _, m := range many(4 + rng.IntN(8)) {
			state.Tables = append(state.Tables, Table{Member: m, Status: Copying, Ranges: []Range{{Lo: Key{"m"}}}})
			relations[m.OID] = &core.Relation{OID: m.OID, Schema: m.Schema, Name: m.Name, Identity: m.Identity,
				Columns: []core.Column{{Name: "k", Identity: true}, {Name: "v"}}}
		}
		r := New(state, Settings{}, epoch)
		wanted := map[uint32]map[string]bool{}
		reset := map[uint32]bool{} // those that are read as a whole
		largest := 0
		for i := range 3000 {
			table := r.tables[rng.IntN(len(r.tables))]
			key := fmt.Sprint(i, strings.Repeat("k", rng.IntN(2000)))
			if rng.IntN(8) == 0 { // a range was cut and given up, as often as there are chunks
				table.ranges = append(table.ranges, Range{Lo: Key{key}, Hi: Key{key + "z"}})
			}
			r.Change(moves(relations[table.OID], "from", key), false)
			if wanted[table.OID] == nil {
				wanted[table.OID] = map[string]bool{}
			}
			wanted[table.OID][key] = true
			if i%150 != 0 {
				continue
			}
			token := r.Unit(r.Note()).Token
			largest = max(largest, len(token))
			require.LessOrEqual(t, len(token), tokenMax)
			state, err := Decode(token)
			require.NoError(t, err)
			for _, s := range state.Tables {
				whole := false
				for _, left := range s.Ranges {
					whole = whole || left.Lo == nil && left.Hi == nil
				}
				listed := map[string]bool{}
				for _, k := range s.Repair {
					listed[k[0]] = true
				}
				for k := range wanted[s.OID] {
					require.True(t, whole || listed[k], "a key is neither listed nor in a range")
				}
				reset[s.OID] = reset[s.OID] || whole
			}
		}
		require.Greater(t, largest, tokenMax/4, "it was put to the test")
		require.Contains(t, slices.Collect(maps.Values(reset)), true)
	}
}

// TestAddedTablesFit: tables that come later find the bound that those of the begin do.
func TestAddedTablesFit(t *testing.T) {
	const tooMany = 6000
	for name, state := range map[string]State{
		"first": {Generation: 1, Kind: KindInitial, Floor: 1},
		"later": {Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Complete: true},
	} {
		require.NoError(t, New(state, Settings{}, epoch).Listed(many(1000), [16]byte{}), name)
		halt, ok := core.AsHalt(New(state, Settings{}, epoch).Listed(many(tooMany), [16]byte{}))
		require.True(t, ok, name)
		require.Equal(t, core.HaltConfigInvalid, halt.Code)
	}
}
