package mirror

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Options of a table.
type Options struct {
	// Name is the table in SQL, quoted where it needs quotes; by default schema and name
	// of the relation, each quoted.
	Name string
	// Column is the name in SQL of a column; by default its own, quoted.
	Column func(name string) string
	// Copied and Generation are the names in SQL of the marks; by default
	// "replicant.copied" and "replicant.generation", quoted.
	Copied, Generation string
	Holes              Holes
	// Value is what is given for a text; by default the text as a string.
	Value func(column *core.Column, text []byte) (any, error)
}

// Table makes the statements of one relation. It is made anew where a relation is: their
// columns may differ from request to request.
type Table struct {
	options  Options
	dialect  Dialect
	relation *core.Relation
	columns  []string
	key      []int
	inKey    []bool
}

// New makes a table. Its key is what old rows carry: the columns of the replica identity,
// or, where that is the whole row or nothing, the primary key.
func New(dialect Dialect, relation *core.Relation, options Options) *Table {
	if options.Name == "" {
		options.Name = Quote(relation.Schema) + "." + Quote(relation.Name)
	}
	if options.Column == nil {
		options.Column = Quote
	}
	if options.Copied == "" {
		options.Copied = Quote("replicant.copied")
	}
	if options.Generation == "" {
		options.Generation = Quote("replicant.generation")
	}
	if options.Value == nil {
		options.Value = func(_ *core.Column, text []byte) (any, error) { return string(text), nil }
	}
	t := &Table{options: options, dialect: dialect, relation: relation, inKey: make([]bool, len(relation.Columns))}
	whole := relation.Identity == core.IdentityFull || relation.Identity == core.IdentityNothing
	for i := range relation.Columns {
		c := &relation.Columns[i]
		t.columns = append(t.columns, options.Column(c.Name))
		if whole && c.PrimaryKeyPosition > 0 || !whole && c.Identity {
			t.key, t.inKey[i] = append(t.key, i), true
		}
	}
	return t
}

// Key is the key's columns in SQL, for the unique index; none where equal rows may repeat.
func (t *Table) Key() []string {
	var names []string
	for _, i := range t.key {
		names = append(names, t.columns[i])
	}
	return names
}

// Marks are the definitions of the two columns that the statements need, for CREATE TABLE
// or one by one for ALTER TABLE ... ADD COLUMN: rows that are there become rows of the
// stream, older than any snapshot.
func (t *Table) Marks() []string {
	return []string{
		t.options.Copied + " " + t.dialect.Bool + " NOT NULL DEFAULT false",
		t.options.Generation + " " + t.dialect.Number + " NOT NULL DEFAULT 0",
	}
}

// cell is one column that a row carries, with its argument.
type cell struct {
	column int
	arg    any
}

// cells are the columns that a row carries: text and NULL.
func (t *Table) cells(row core.Tuple) ([]cell, error) {
	var list []cell
	for i, v := range row.Values() {
		switch v.Kind {
		case core.ValueText:
			arg, err := t.options.Value(&t.relation.Columns[i], v.Text)
			if err != nil {
				return nil, err
			}
			list = append(list, cell{i, arg})
		case core.ValueNull:
			list = append(list, cell{i, nil})
		}
	}
	return list, nil
}

// keyCells are the key's columns of a row, which has all of them.
func (t *Table) keyCells(row []cell) ([]cell, error) {
	var list []cell
	for _, c := range row {
		if t.inKey[c.column] {
			list = append(list, c)
		}
	}
	if len(list) != len(t.key) {
		return nil, &core.Refusal{Reason: core.ReasonUnitRejected, Text: "a row came without its key"}
	}
	return list, nil
}
