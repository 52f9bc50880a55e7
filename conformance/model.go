package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// model is what a sink's store must show: a small interpreter of the contract that shares
// no code with any sink.
type model struct {
	tables    map[tableName]*modelTable
	positions map[string]uint64
	logs      map[string][]LogEntry
	counts    tally
	// generation is that of the newest run; what the stream touches carries it.
	generation uint64
}

// tally counts what changed, as Counts does.
type tally struct{ inserted, updated, deleted, truncated, replayed uint64 }

// modelTable holds rows in the order in which they came.
type modelTable struct {
	columns []string
	rows    []*modelRow
	// loose: a row more or less is lawful, since the contract leaves it to the sink.
	loose bool
	// seen has, for each set of key columns, the keys that were ever there: most inserts
	// bring a new one, and need not look at every row.
	seen map[string]map[string]bool
}

// add appends a row.
func (t *modelTable) add(row *modelRow) {
	t.rows = append(t.rows, row)
	for names, keys := range t.seen {
		keys[row.keyText(strings.Split(names, "\x00"))] = true
	}
}

// mayHave is false where no row can have this key.
func (t *modelTable) mayHave(s *shape, row []cell) bool {
	var names []string
	wanted := &modelRow{known: map[string]Value{}}
	for _, i := range s.key {
		name := s.relation.GetColumns()[i].GetName()
		names = append(names, name)
		wanted.known[name] = Value{Null: row[i].letter == letterNull, Text: row[i].text}
	}
	joined := strings.Join(names, "\x00")
	keys := t.seen[joined]
	if keys == nil {
		keys = map[string]bool{}
		for _, have := range t.rows {
			keys[have.keyText(names)] = true
		}
		if t.seen == nil {
			t.seen = map[string]map[string]bool{}
		}
		t.seen[joined] = keys
	}
	return keys[wanted.keyText(names)]
}

// keyText is the same for rows with the same values in these columns.
func (r *modelRow) keyText(names []string) string {
	var b strings.Builder
	for _, name := range names {
		value, known := r.known[name]
		fmt.Fprintf(&b, "%t %t %d %s ", known, value.Null, len(value.Text), value.Text)
	}
	return b.String()
}

// modelRow is one row. A column that is missing from known is a hole: the sink was never
// sent its value.
type modelRow struct {
	known map[string]Value
	// optional: the sink may ignore what made this row.
	optional bool
	// snapshot: a snapshot wrote it, and no stream change touched it since.
	snapshot   bool
	generation uint64
}

func newModel() *model {
	return &model{
		tables: map[tableName]*modelTable{}, positions: map[string]uint64{}, logs: map[string][]LogEntry{},
	}
}

// clone is a copy that nothing shares.
func (m *model) clone() *model {
	c := newModel()
	c.counts, c.generation = m.counts, m.generation
	maps.Copy(c.positions, m.positions)
	for stream, entries := range m.logs {
		c.logs[stream] = slices.Clone(entries)
	}
	for name, t := range m.tables {
		copied := &modelTable{columns: slices.Clone(t.columns), loose: t.loose}
		for _, row := range t.rows {
			r := *row
			r.known = maps.Clone(row.known)
			copied.rows = append(copied.rows, &r)
		}
		c.tables[name] = copied
	}
	return c
}

// table is the table of a shape, which brings its columns.
func (m *model) table(s *shape) *modelTable {
	t := m.tables[s.name()]
	if t == nil {
		t = &modelTable{}
		m.tables[s.name()] = t
	}
	for _, name := range s.columns() {
		if !slices.Contains(t.columns, name) {
			t.columns = append(t.columns, name)
		}
	}
	return t
}

// transaction applies one transaction of a stream, or skips what the stream has.
func (m *model) transaction(stream string, t *txn) {
	if t.end <= m.positions[stream] {
		m.counts.replayed++
		return
	}
	m.force(stream, t)
	m.positions[stream] = t.end
}

// force applies a transaction and moves no position.
func (m *model) force(stream string, t *txn) {
	for i, c := range t.changes {
		m.change(c)
		m.logs[stream] = append(m.logs[stream], entriesOf(t, uint64(i), c)...)
	}
}

func (m *model) change(c change) {
	switch c.op {
	case sinkv1.ChangeOp_CHANGE_OP_INSERT:
		m.upsert(c.shape, c.now, nil)
		m.counts.inserted++
	case sinkv1.ChangeOp_CHANGE_OP_UPDATE:
		m.update(c)
	case sinkv1.ChangeOp_CHANGE_OP_DELETE:
		if t := m.table(c.shape); t.take(c.shape, c.old) != nil {
			m.counts.deleted++
		}
	case sinkv1.ChangeOp_CHANGE_OP_TRUNCATE:
		for _, s := range c.truncate {
			m.table(s).rows = nil
			m.counts.truncated++
		}
	}
}

// update is S-402 to S-404: an unchanged column comes from the old key's row, else from
// the row at the new key, else it is a hole.
func (m *model) update(c change) {
	t := m.table(c.shape)
	find := c.now
	if c.old != nil {
		find = c.old
	}
	if old := t.take(c.shape, find); old != nil {
		m.upsert(c.shape, c.now, old)
		m.counts.updated++
		return
	}
	m.upsert(c.shape, c.now, nil)
	m.counts.inserted++
}

// upsert stores a streamed row. Unchanged columns come from old, or from the row that is
// at the key now.
func (m *model) upsert(s *shape, now []cell, old *modelRow) {
	t := m.table(s)
	row := &modelRow{known: map[string]Value{}, generation: m.generation}
	if len(s.key) > 0 {
		there := t.take(s, now)
		if old == nil {
			old = there
		}
	}
	holes := false
	for i, c := range now {
		name := s.relation.GetColumns()[i].GetName()
		switch c.letter {
		case letterText:
			row.known[name] = Value{Text: c.text}
		case letterNull:
			row.known[name] = Value{Null: true}
		case letterUnchanged, letterAbsent: // neither is carried: what is stored stays
			value, known := Value{}, false
			if old != nil {
				value, known = old.known[name]
			}
			if known {
				row.known[name] = value
			}
			holes = holes || !known && c.letter == letterUnchanged
		}
	}
	if old != nil { // columns that this shape does not carry
		for name, value := range old.known {
			if !slices.Contains(s.columns(), name) {
				row.known[name] = value
			}
		}
	}
	row.optional = holes && (old == nil || old.optional)
	t.add(row)
}

// take removes one row and gives it: that with this key, or one that equals the whole
// row where the table has none.
func (t *modelTable) take(s *shape, row []cell) *modelRow {
	if len(s.key) > 0 && !t.mayHave(s, row) {
		return nil
	}
	for i, have := range t.rows {
		if have.matches(s, row) {
			t.rows = slices.Delete(t.rows, i, i+1)
			return have
		}
	}
	return nil
}

func (r *modelRow) matches(s *shape, row []cell) bool {
	compare := s.key
	if len(compare) == 0 {
		for i, c := range row {
			if c.letter == letterText || c.letter == letterNull {
				compare = append(compare, i)
			}
		}
	}
	for _, i := range compare {
		have, known := r.known[s.relation.GetColumns()[i].GetName()]
		if !known || have.Null != (row[i].letter == letterNull) || !bytes.Equal(have.Text, row[i].text) {
			return false
		}
	}
	return true
}

// entriesOf is what an append log must hold of one change.
func entriesOf(t *txn, ordinal uint64, c change) []LogEntry {
	base := LogEntry{CommitLSN: t.commit, Ordinal: ordinal, Op: strings.ToLower(c.op.String()[len("CHANGE_OP_"):])}
	if c.op == sinkv1.ChangeOp_CHANGE_OP_TRUNCATE {
		var entries []LogEntry
		for _, s := range c.truncate {
			e := base
			e.Schema, e.Table = s.name().schema, s.name().table
			entries = append(entries, e)
		}
		return entries
	}
	if c.op == sinkv1.ChangeOp_CHANGE_OP_MESSAGE {
		base.Prefix, base.Content = c.message.GetPrefix(), c.message.GetContent()
		return []LogEntry{base}
	}
	row := c.now
	if c.op == sinkv1.ChangeOp_CHANGE_OP_DELETE {
		row = c.old
	}
	base.Schema, base.Table, base.Columns = c.shape.name().schema, c.shape.name().table, c.shape.columns()
	for _, cell := range row {
		base.Kinds += string(rune(cell.letter))
		base.Values = append(base.Values, Value{Null: cell.letter == letterNull, Text: cell.text})
	}
	return []LogEntry{base}
}
