package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

func TestMembership(t *testing.T) {
	type tables = map[uint32]wal.PublishedTable
	a, b, all := wal.PublishedTable{Schema: "s", Name: "a", Chosen: true}, wal.PublishedTable{Schema: "s", Name: "b", Chosen: true}, wal.PublishedTable{Schema: "s", Name: "c", Chosen: false}
	var m membership
	for _, step := range []struct {
		now  tables
		told []string
	}{
		{tables{1: a}, nil}, // what was there at the start is no news
		{tables{1: a}, nil},
		{tables{1: a, 2: b}, []string{`"s"."b" is published now: rows that it held before do not reach the sink`}},
		{tables{1: a, 2: b, 3: all}, nil}, // all there is: it was published from its first row
		{tables{9: a, 3: all}, []string{
			`"s"."a" is no longer published: its changes do not reach the sink`,
			`"s"."b" is no longer published: its changes do not reach the sink`,
			`"s"."a" is another table now (OID 9, before 1): no message said that the rows of the old one are gone`,
		}},
		{tables{2: b, 9: a}, []string{
			`"s"."c" is no longer published: its changes do not reach the sink`,
			`"s"."b" is published now: rows that it held before do not reach the sink`,
		}},
		{tables{2: b, 9: a, 4: all}, []string{ // made anew between two looks
			`"s"."c" is another table now (OID 4, before 3): no message said that the rows of the old one are gone`,
		}},
		{tables{2: b, 9: a, 4: all}, nil},
	} {
		require.Equal(t, step.told, m.look(step.now))
	}
}
