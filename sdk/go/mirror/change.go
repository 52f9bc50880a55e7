package mirror

import (
	"bytes"
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Change is what an insert, update or delete of the stream does. The generation is that of
// the stream's latest snapshot, 0 if there was none.
func (t *Table) Change(c *core.Change, generation uint64) ([]Statement, error) {
	var row, old []cell
	var err error
	if !c.New.IsZero() {
		if row, err = t.cells(c.New); err != nil {
			return nil, err
		}
	}
	if !c.Old.IsZero() {
		if old, err = t.cells(c.Old); err != nil {
			return nil, err
		}
	}
	switch {
	case c.Op == core.OpDelete && len(t.key) == 0:
		return []Statement{t.deleteOne(old)}, nil
	case c.Op == core.OpDelete:
		return t.deleteKey(old)
	case c.Op == core.OpUpdate && len(t.key) == 0:
		return t.updateOne(row, old, generation), nil
	case c.Op == core.OpUpdate && c.OldKind != core.OldNone:
		return t.move(c, row, old, generation)
	}
	return t.store(row, c.New.Has(core.ValueUnchanged), generation)
}

// Truncate removes every row, of the stream and of snapshots.
func (t *Table) Truncate() Statement { return t.start("DELETE FROM ", t.options.Name).done() }

func (t *Table) start(parts ...string) *builder {
	b := &builder{dialect: t.dialect}
	return b.text(parts...)
}

// store is a row of the stream at its own key.
func (t *Table) store(row []cell, holed bool, generation uint64) ([]Statement, error) {
	if len(t.key) == 0 {
		return []Statement{t.insert(row, false, generation)}, nil
	}
	key, err := t.keyCells(row)
	if err != nil {
		return nil, err
	}
	if holed && t.options.Holes == IgnoreHoles {
		b := t.start("UPDATE ", t.options.Name, " SET ")
		t.sets(b, row, generation)
		return []Statement{t.where(b, key).done()}, nil
	}
	return []Statement{t.insert(row, false, generation)}, nil
}

// insert is an upsert in tables with a key. A copied row leaves the origin of the row that
// it replaces.
func (t *Table) insert(row []cell, copied bool, generation uint64) Statement {
	b := t.start("INSERT INTO ", t.options.Name, " (")
	for _, c := range row {
		b.text(t.columns[c.column], ", ")
	}
	b.text(t.options.Copied, ", ", t.options.Generation, ") VALUES (")
	for _, c := range row {
		b.arg(c.arg).text(", ")
	}
	b.text(map[bool]string{true: "true, ", false: "false, "}[copied]).arg(int64(generation)).text(")")
	if len(t.key) == 0 {
		return b.done()
	}
	b.text(" ON CONFLICT (")
	for n, i := range t.key {
		if n > 0 {
			b.text(", ")
		}
		b.text(t.columns[i])
	}
	b.text(") DO UPDATE SET ", t.options.Generation, " = excluded.", t.options.Generation)
	if !copied {
		b.text(", ", t.options.Copied, " = false")
	}
	for _, c := range row {
		b.text(", ", t.columns[c.column], " = excluded.", t.columns[c.column])
	}
	return b.done()
}

func (t *Table) sets(b *builder, row []cell, generation uint64) {
	for _, c := range row {
		b.text(t.columns[c.column], " = ").arg(c.arg).text(", ")
	}
	b.text(t.options.Copied, " = false, ", t.options.Generation, " = ").arg(int64(generation))
}

func (t *Table) where(b *builder, cells []cell) *builder {
	b.text(" WHERE ")
	return t.all(b, cells, " = ")
}

func (t *Table) all(b *builder, cells []cell, comparison string) *builder {
	for n, c := range cells {
		if n > 0 {
			b.text(" AND ")
		}
		b.text(t.columns[c.column], comparison).arg(c.arg)
	}
	return b
}

// move is an update that came with an old row. The row at the new key gives way, but only
// to one that is there at the old key; then that one changes its key; then, if there was
// none, the row is stored at the new key, over what is there.
func (t *Table) move(c *core.Change, row, old []cell, generation uint64) ([]Statement, error) {
	from, err := t.keyCells(old)
	if err != nil {
		return nil, err
	}
	for _, c := range from { // a key column that is itself unchanged is that of the old row
		if !slices.ContainsFunc(row, func(r cell) bool { return r.column == c.column }) {
			row = append(row, c)
		}
	}
	to, err := t.keyCells(row)
	if err != nil {
		return nil, err
	}
	last, err := t.store(row, c.New.Has(core.ValueUnchanged), generation)
	if err != nil || !t.moved(c) {
		return last, err
	}
	give := t.where(t.start("DELETE FROM ", t.options.Name), to)
	give.text(" AND EXISTS (SELECT 1 FROM ", t.options.Name)
	t.where(give, from).text(")")
	change := t.start("UPDATE ", t.options.Name, " SET ")
	t.sets(change, row, generation)
	return append([]Statement{give.done(), t.where(change, from).done()}, last...), nil
}

// moved reports whether the new row has another key than the old one.
func (t *Table) moved(c *core.Change) bool {
	for _, i := range t.key {
		now, before := c.New.Value(i), c.Old.Value(i)
		if now.Kind != core.ValueUnchanged && !bytes.Equal(now.Text, before.Text) {
			return true
		}
	}
	return false
}

func (t *Table) deleteKey(old []cell) ([]Statement, error) {
	key, err := t.keyCells(old)
	if err != nil {
		return nil, err
	}
	return []Statement{t.where(t.start("DELETE FROM ", t.options.Name), key).done()}, nil
}

func (t *Table) deleteOne(old []cell) Statement {
	return t.one(t.start("DELETE FROM ", t.options.Name), old).done()
}

// one limits a statement to one of the rows that equal the old one.
func (t *Table) one(b *builder, old []cell) *builder {
	b.text(" WHERE ", t.dialect.RowID, " = (SELECT ", t.dialect.RowID, " FROM ", t.options.Name, " WHERE ")
	return t.all(b, old, " "+t.dialect.Same+" ").text(" LIMIT 1)")
}

// updateOne stores the row where there is none to change.
func (t *Table) updateOne(row, old []cell, generation uint64) []Statement {
	add := t.start("INSERT INTO ", t.options.Name, " (")
	for _, c := range row {
		add.text(t.columns[c.column], ", ")
	}
	add.text(t.options.Copied, ", ", t.options.Generation, ") SELECT ")
	for _, c := range row {
		add.arg(c.arg).text(", ")
	}
	add.text("false, ").arg(int64(generation)).text(" WHERE NOT EXISTS (SELECT 1 FROM ", t.options.Name, " WHERE ")
	t.all(add, old, " "+t.dialect.Same+" ").text(")")
	change := t.start("UPDATE ", t.options.Name, " SET ")
	t.sets(change, row, generation)
	return []Statement{add.done(), t.one(change, old).done()}
}
