package incremental

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTableComesBackWithAnotherKey: what was known of its old key is forgotten, and a table
// that has none now is told apart from those that have.
func TestTableComesBackWithAnotherKey(t *testing.T) {
	was := Member{OID: 7, Schema: "s", Name: "t", Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 1"}}
	state := State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{
		{Member: was, Status: Gone, Repair: []Key{{"old"}}},
		{Member: many(1)[0], Status: Done},
	}}
	two, none := was, was
	two.Key, two.KeyTypes, two.KeyCollations = []string{"a", "b"}, []uint32{23, 23}, []string{"", ""}
	none.Key, none.KeyTypes, none.KeyCollations = nil, nil, nil
	for _, now := range []Member{two, none} {
		r := New(state, Settings{}, epoch)
		require.Zero(t, r.unkeyed)
		require.NoError(t, r.Listed([]Member{now, many(1)[0]}, [16]byte{9}))
		require.Equal(t, len(now.Key) == 0, r.unkeyed == 1)
		back, err := Decode(r.Unit(r.Note()).Token)
		require.NoError(t, err, "keys of another width cannot be read")
		require.Empty(t, back.Tables[0].Repair)
		require.Equal(t, fresh(now).Ranges, back.Tables[0].Ranges)
		require.Equal(t, Pending, back.Tables[0].Status)
	}
}
