package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompareFacts: what the snapshot shows must be there now, unchanged; what came later,
// or never mattered, is no difference.
func TestCompareFacts(t *testing.T) {
	then := [][]string{{"1", "a", "x"}, {"2", "b", ""}}
	for name, row := range map[string]struct {
		today    [][]string
		relation string
	}{
		"equal":                {then, ""},
		"came later":           {append([][]string{{"3", "c", "z"}}, then...), ""},
		"went, never mattered": {then[:1], ""},
		"changed":              {[][]string{{"1", "a", "y"}, {"2", "b", ""}}, "a"},
		"went":                 {then[1:], "a"},
		"became a member":      {[][]string{{"1", "a", "x"}, {"2", "b", "p"}}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			relation, same := compareFacts(then, row.today)
			require.Equal(t, row.relation == "", same)
			require.Equal(t, row.relation, relation)
		})
	}
}
