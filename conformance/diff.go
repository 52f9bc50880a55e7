package conformance

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shownRows is how many differing rows a TableDiff shows.
const shownRows = 20

// shown is a value as a report may show it.
func shown(v Value, values bool) string {
	switch {
	case v.Unknown:
		return "not known"
	case v.Null:
		return "NULL"
	case values && len(v.Text) <= 200:
		return strconv.Quote(string(v.Text))
	}
	sum := sha256.Sum256(v.Text)
	return fmt.Sprintf("sha256:%x, %d bytes", sum[:4], len(v.Text))
}

// expected is a row that must be there. A column without a value is a hole.
type expected struct {
	columns  []string
	values   []Value
	hole     []bool
	optional bool
}

// fits reports whether a stored row is this one.
func (e *expected) fits(columns []string, row []Value) bool {
	for i, name := range e.columns {
		at := slices.Index(columns, name)
		if e.hole[i] {
			continue
		}
		if at < 0 || row[at].Null != e.values[i].Null || row[at].Unknown || !bytes.Equal(row[at].Text, e.values[i].Text) {
			return false
		}
	}
	return true
}

// rows are those that the model's table holds.
func (t *modelTable) expected() []*expected {
	var all []*expected
	for _, r := range t.rows {
		e := &expected{columns: t.columns, optional: r.optional}
		for _, name := range t.columns {
			value, known := r.known[name]
			// A column that came later is NULL, or whatever the sink made of "never sent".
			e.values, e.hole = append(e.values, value), append(e.hole, !known)
		}
		all = append(all, e)
	}
	return all
}

// compareTable gives nil where a stored table is what the model says.
func compareTable(name tableName, key []string, want *modelTable, have Table, values bool) *TableDiff {
	wanted := want.expected()
	d := &TableDiff{
		Schema: name.schema, Table: name.table, Columns: want.columns,
		Expected: len(wanted), Found: len(have.Rows),
	}
	index := map[string][]*expected{}
	var loose []*expected
	for _, e := range wanted {
		if slices.Contains(e.hole, true) {
			loose = append(loose, e)
			continue
		}
		k := strings.Join(render(e.columns, e.columns, e.values), "\x00")
		index[k] = append(index[k], e)
	}
	var surplus [][]Value
	for _, row := range have.Rows {
		k := strings.Join(render(want.columns, have.Columns, row), "\x00")
		if left := index[k]; len(left) > 0 {
			index[k] = left[1:]
			continue
		}
		at := slices.IndexFunc(loose, func(e *expected) bool { return e.fits(have.Columns, row) })
		if at >= 0 {
			loose = slices.Delete(loose, at, at+1)
			continue
		}
		surplus = append(surplus, row)
	}
	missing := loose
	for _, left := range index {
		missing = append(missing, left...)
	}
	missing = slices.DeleteFunc(missing, func(e *expected) bool { return e.optional })
	if len(missing) == 0 && len(surplus) == 0 {
		return nil
	}
	d.pair(key, missing, have.Columns, surplus, values)
	return d
}

// render is a row in the order of the wanted columns, each value told apart from all
// others. A column that the sink lacks is like no value.
func render(wanted, columns []string, row []Value) []string {
	out := make([]string, len(wanted))
	for i, name := range wanted {
		at := slices.Index(columns, name)
		switch {
		case at < 0:
			out[i] = "-"
		case row[at].Unknown:
			out[i] = "?"
		case row[at].Null:
			out[i] = "n"
		default:
			out[i] = "t" + strconv.Itoa(len(row[at].Text)) + ":" + string(row[at].Text)
		}
	}
	return out
}

// pair puts what is missing beside what is too much, by key.
func (d *TableDiff) pair(key []string, missing []*expected, columns []string, surplus [][]Value, values bool) {
	byKey := map[string]*RowDiff{}
	var order []string
	at := func(k string) *RowDiff {
		if byKey[k] == nil {
			byKey[k] = &RowDiff{Key: k}
			order = append(order, k)
		}
		return byKey[k]
	}
	show := func(have []string, row []Value, hole []bool) []string {
		cells := make([]string, len(d.Columns))
		for i, name := range d.Columns {
			switch p := slices.Index(have, name); {
			case p < 0:
				cells[i] = "no such column"
			case hole != nil && hole[p]:
				cells[i] = "any"
			default:
				cells[i] = shown(row[p], values)
			}
		}
		return cells
	}
	keyOf := func(have []string, row []Value, n int) string {
		if len(key) == 0 {
			return "row " + strconv.Itoa(n+1)
		}
		var parts []string
		for _, name := range key {
			if p := slices.Index(have, name); p >= 0 {
				parts = append(parts, shown(row[p], values))
			}
		}
		return strings.Join(parts, " / ")
	}
	for n, e := range missing {
		at(keyOf(e.columns, e.values, n)).Expected = show(e.columns, e.values, e.hole)
	}
	for n, row := range surplus {
		r := at(keyOf(columns, row, n))
		if r.Found != nil { // two rows with one key: the second is told apart
			r = at(r.Key + " (again)")
		}
		r.Found = show(columns, row, nil)
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(a, b) })
	for _, k := range order {
		r := byKey[k]
		switch {
		case r.Found == nil:
			d.Missing++
		case r.Expected == nil:
			d.Surplus++
		default:
			d.Changed++
		}
		if len(d.Rows) < shownRows {
			d.Rows = append(d.Rows, *r)
		}
	}
}
