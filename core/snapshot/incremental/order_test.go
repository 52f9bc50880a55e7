package incremental

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnotherOrderOfKeys: bounds that were cut by another order than the table has now say
// nothing. It begins again from its clear unit.
func TestAnotherOrderOfKeys(t *testing.T) {
	was := Member{OID: 7, Schema: "s", Name: "t", Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 2.35"}}
	for name, change := range map[string]func(*Member){
		"none":      func(*Member) {},
		"collation": func(m *Member) { m.KeyCollations = []string{"950 "} },
		"version":   func(m *Member) { m.KeyCollations = []string{"100 2.36"} },
		"type":      func(m *Member) { m.KeyTypes = []uint32{1043} },
	} {
		t.Run(name, func(t *testing.T) {
			left := []Range{{Lo: Key{"m"}}}
			stored := State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{{Member: was, Status: Copying, Ranges: left, Repair: []Key{{"a"}}}}}
			state, err := Decode(stored.Encode())
			require.NoError(t, err)
			r := New(*state, Settings{}, epoch)
			job, ok := r.Next()
			require.True(t, ok)
			now := was
			change(&now)
			r.Looked(Look{ID: job.ID, Found: true, Member: now})
			if name == "none" {
				job, ok = r.Next()
				require.True(t, ok)
				require.Equal(t, left[0], job.Range)
				return
			}
			step := r.Take()
			require.NotNil(t, step)
			require.True(t, step.Clears())
			cleared, err := Decode(r.Unit(step).Token)
			require.NoError(t, err)
			require.Equal(t, Everything(), cleared.Tables[0].Ranges)
			require.Empty(t, cleared.Tables[0].Repair)
			require.Equal(t, now, cleared.Tables[0].Member)
			r.Stored(step)
			job, ok = r.Next()
			require.True(t, ok)
			require.Equal(t, Range{}, job.Range)
		})
	}
}
