package windows

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// elsewhere are rows that run with two-phase delivery.
var elsewhere = map[string]string{"N11": "two-phase"}

// row is one line of the matrix. Its parts are parted by semicolons, or by slashes in
// its id.
type row struct {
	id, group    string
	window, must string
	parts        int
}

var rowLine = regexp.MustCompile(`(?m)^\| ([A-Z]+)([0-9]+(?:/[0-9a-z]+)*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|`)

// matrix reads the rows of the groups.
func matrix(t *testing.T, groups string) (rows []row) {
	t.Helper()
	text, err := os.ReadFile("../../docs/fault-matrix.md")
	require.NoError(t, err)
	for _, m := range rowLine.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(" "+groups+" ", " "+m[1]+" ") {
			continue
		}
		r := row{id: m[1] + m[2], group: m[1], window: m[3], must: m[5]}
		r.parts = max(strings.Count(m[3], ";"), strings.Count(m[2], "/")) + 1
		rows = append(rows, r)
	}
	require.NotEmpty(t, rows, "no rows in docs/fault-matrix.md for %q", groups)
	return rows
}

// unserved lists the parts of a row that no case runs, as lines.
func (r row) unserved() (lines []string) {
	served := map[int]bool{}
	for _, c := range casesOf(r.id) {
		served[c.part] = true
	}
	if _, later := elsewhere[r.id]; later {
		return nil
	}
	for part := 1; part <= r.parts; part++ {
		if !served[part] && !served[0] {
			lines = append(lines, fmt.Sprintf("%-10s not implemented: %s", fmt.Sprintf("%s.%d", r.id, part), r.window))
		}
	}
	return lines
}

// A case without a row is as wrong as a row without a case.
func TestCasesHaveRows(t *testing.T) {
	parts := map[string]int{}
	for _, r := range matrix(t, allGroups) {
		parts[r.id] = r.parts
	}
	for _, c := range cases {
		require.Contains(t, parts, c.id, "%s stands in no line of docs/fault-matrix.md", c.id)
		require.LessOrEqual(t, c.part, parts[c.id], c.id)
	}
	require.Contains(t, parts, "N11")
	require.Len(t, elsewhere, 1)
}
