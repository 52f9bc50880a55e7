package sinktest

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Row is a row as a state mirror holds it.
type Row struct {
	// Values by column name. A column that the mirror cannot know has the kind
	// core.ValueUnchanged.
	Values map[string]core.Value
	// FromSnapshot is the origin mark: no stream change has touched the row.
	FromSnapshot bool
	Generation   uint64
}

// Complete reports whether every column is known.
func (r Row) Complete() bool {
	for _, v := range r.Values {
		if v.Kind == core.ValueUnchanged {
			return false
		}
	}
	return true
}

// Mirror holds the rows of all tables as a sink of kind state mirror has to: what it does
// with a row of the stream and with one of a snapshot is the contract's, rule by rule.
// It is not safe for concurrent use.
type Mirror struct {
	// IgnoreHoles leaves out a row of which a column is not known, as a sink with NOT
	// NULL columns does; otherwise the row is stored with that column unknown.
	IgnoreHoles bool

	generation uint64
	tables     map[tableName]*table
}

type tableName struct{ schema, name string }

// table has its rows by key; those of a table without a key have a number as theirs.
type table struct {
	rows map[string]Row
	next uint64
}

func (m *Mirror) table(r *core.Relation) *table {
	name := tableName{r.Schema, r.Name}
	if m.tables == nil {
		m.tables = make(map[tableName]*table)
	}
	if m.tables[name] == nil {
		m.tables[name] = &table{rows: make(map[string]Row)}
	}
	return m.tables[name]
}

// Rows are copies of the table's rows, in the order of their keys' bytes.
func (m *Mirror) Rows(schema, name string) []Row {
	at := m.tables[tableName{schema, name}]
	if at == nil {
		return nil
	}
	var list []Row
	for _, key := range slices.Sorted(maps.Keys(at.rows)) {
		row := at.rows[key]
		row.Values = maps.Clone(row.Values)
		list = append(list, row)
	}
	return list
}

// Apply does the changes of a transaction, or of a piece of one.
func (m *Mirror) Apply(changes []core.Change) {
	for i := range changes {
		switch c := &changes[i]; c.Op {
		case core.OpInsert, core.OpUpdate:
			m.write(c)
		case core.OpDelete:
			at := m.table(c.Relation)
			if key, found := at.find(c.Relation, c.Old); found {
				delete(at.rows, key)
			}
		case core.OpTruncate:
			for _, relation := range c.Truncate.Relations {
				clear(m.table(relation).rows)
			}
		}
	}
}

// write stores the new row. Where the key changed, the columns that were not carried are
// those of the row at the old key, if there is one.
func (m *Mirror) write(c *core.Change) {
	at := m.table(c.Relation)
	key := at.place(c.Relation, c.New)
	before, known := at.rows[key]
	if !c.Old.IsZero() {
		if old, found := at.find(c.Relation, c.Old); found && old != key {
			before, known = at.rows[old], true
			delete(at.rows, old)
		}
	}
	row := Row{Values: make(map[string]core.Value), Generation: m.generation}
	maps.Copy(row.Values, before.Values)
	for i, v := range c.New.Values() {
		name := c.Relation.Columns[i].Name
		if _, stored := before.Values[name]; v.Kind == core.ValueUnchanged && stored {
			continue
		}
		row.Values[name] = cloneValue(v)
	}
	if m.IgnoreHoles && !known && !row.Complete() {
		delete(at.rows, key)
		return
	}
	at.rows[key] = row
}

// Snapshot does what a unit says of its table: reset, rows, sweep.
func (m *Mirror) Snapshot(u *core.SnapshotUnit) {
	m.generation = max(m.generation, u.Generation)
	if u.Relation == nil {
		return
	}
	at := m.table(u.Relation)
	if u.First {
		maps.DeleteFunc(at.rows, func(_ string, r Row) bool { return u.Reset == core.ResetAll || r.FromSnapshot })
	}
	for _, tuple := range u.Rows {
		key := at.place(u.Relation, tuple)
		before, known := at.rows[key]
		row := Row{Values: make(map[string]core.Value), FromSnapshot: !known || before.FromSnapshot, Generation: u.Generation}
		for i, v := range tuple.Values() {
			row.Values[u.Relation.Columns[i].Name] = cloneValue(v)
		}
		at.rows[key] = row
	}
	if u.Last && u.Sweep {
		maps.DeleteFunc(at.rows, func(_ string, r Row) bool { return r.Generation < u.Generation })
	}
}

// place is the key of a row to store; a row of a table without a key gets a new one.
func (t *table) place(r *core.Relation, tuple core.Tuple) string {
	if key, keyed := keyOf(r, tuple); keyed {
		return key
	}
	t.next++
	return string(binary.BigEndian.AppendUint64(nil, t.next))
}

// find is where an old row stands. In a table without a key it is one of those that are
// equal in every column.
func (t *table) find(r *core.Relation, old core.Tuple) (string, bool) {
	if key, keyed := keyOf(r, old); keyed {
		_, found := t.rows[key]
		return key, found
	}
	for _, key := range slices.Sorted(maps.Keys(t.rows)) {
		if equals(t.rows[key], r, old) {
			return key, true
		}
	}
	return "", false
}

func equals(row Row, r *core.Relation, tuple core.Tuple) bool {
	for i, v := range tuple.Values() {
		stored, has := row.Values[r.Columns[i].Name]
		if v.Kind != core.ValueAbsent && (!has || stored.Kind != v.Kind || string(stored.Text) != string(v.Text)) {
			return false
		}
	}
	return true
}

// keyOf is the key's columns, each with its length before it: those of the replica
// identity, or of the primary key where the identity is the whole row.
func keyOf(r *core.Relation, tuple core.Tuple) (key string, keyed bool) {
	var b strings.Builder
	for i, v := range tuple.Values() {
		c := &r.Columns[i]
		if r.Identity == core.IdentityFull && c.PrimaryKeyPosition == 0 || r.Identity != core.IdentityFull && !c.Identity {
			continue
		}
		keyed = true
		b.WriteByte(byte(v.Kind))
		b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(v.Text))))
		b.Write(v.Text)
	}
	return b.String(), keyed
}

func cloneValue(v core.Value) core.Value {
	return core.Value{Kind: v.Kind, Text: append([]byte(nil), v.Text...)}
}
