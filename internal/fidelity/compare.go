package fidelity

import (
	"fmt"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// The roads that a value can take.
const (
	PathInitial   = "initial copy"
	PathChunk     = "chunk"
	PathInsert    = "insert"
	PathUpdate    = "update, new row"
	PathUpdateOld = "update, old row"
	PathDelete    = "delete, old row"
)

// Paths lists them all.
var Paths = []string{PathInitial, PathChunk, PathInsert, PathUpdate, PathUpdateOld, PathDelete}

// Values are the rows of one table on one path: by id, then by column, without id and n.
type Values map[string]map[string]core.Value

// Add takes a row.
func (v Values) Add(relation *core.Relation, row core.Tuple) {
	cells := map[string]core.Value{}
	id := ""
	for i, value := range row.Values() {
		switch name := relation.Columns[i].Name; name {
		case "id":
			id = string(value.Text)
		case "n":
		default:
			cells[name] = core.Value{Kind: value.Kind, Text: append([]byte(nil), value.Text...)}
		}
	}
	v[id] = cells
}

// Difference is a value that one path shows in another way than the reference.
type Difference struct {
	Path, Type string
	Row        int
}

// Report counts what was compared.
type Report struct {
	Major int
	// Values leaves out the NULLs that fill rows.
	Types, Values int
	// Arrays are how many of the types are arrays.
	Arrays      int
	Differences []Difference
	// By counts differences by path.
	By map[string]int
}

// Compare holds each path of a table against the reference: every row, every column, kind
// and bytes. A row that a path has not is a difference in all columns.
func (r *Report) Compare(t Table, reference Values, paths map[string]Values) {
	if r.By == nil {
		r.By = map[string]int{}
	}
	r.Types += len(t.Columns)
	for _, c := range t.Columns {
		if strings.HasSuffix(c.Type, "[]") {
			r.Arrays++
		}
	}
	for row := range t.Rows() {
		id := fmt.Sprint(row)
		for _, c := range t.Columns {
			if row < len(c.Values) {
				r.Values++
			}
			want := reference[id][c.Name]
			for _, path := range Paths {
				got, there := paths[path][id][c.Name]
				if there && got.Kind == want.Kind && string(got.Text) == string(want.Text) {
					continue
				}
				r.By[path]++
				r.Differences = append(r.Differences, Difference{path, c.Type, row})
			}
		}
	}
}

// String is for people: a line for each path, and the first differences below them.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Postgres %d: %d types (%d arrays), %d values, %d paths, %d differences", r.Major, r.Types, r.Arrays, r.Values, len(Paths), len(r.Differences))
	for _, path := range Paths {
		fmt.Fprintf(&b, "\n  %-16s %d values, %d differ", path, r.Values, r.By[path])
	}
	for i, d := range r.Differences {
		if i == 20 {
			fmt.Fprintf(&b, "\n  and %d more", len(r.Differences)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s, row %d", d.Path, d.Type, d.Row)
	}
	return b.String()
}
