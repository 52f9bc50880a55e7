package assembler

import (
	"encoding/binary"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// row packs one Insert, Update or Delete.
func (a *Assembler) row(m *pgoutput.Message) (Step, *core.Halt) {
	if a.state != stateOpen {
		return StepNone, framing("%s outside of a transaction", m.Kind)
	}
	e, halt := a.relations.use(m.RelationOID)
	if halt != nil {
		return StepNone, halt
	}
	if leaf := a.relations.described; leaf != nil {
		a.relations.described = nil
		e.noteLeaf(leaf)
	}
	if fault := checkImages(m, e); fault != nil {
		return StepNone, fault
	}
	c := a.nextChange()
	c.Relation = e.relation
	switch m.Kind {
	case pgoutput.KindInsert:
		c.Op = core.OpInsert
	case pgoutput.KindUpdate:
		c.Op = core.OpUpdate
	case pgoutput.KindDelete:
		c.Op = core.OpDelete
	}
	if m.OldKind != pgoutput.OldNone {
		if c.OldKind = oldKind(m, e); c.OldKind == core.OldFull {
			c.Old = a.pack(m.Old)
		} else {
			c.Old = a.packKey(e, m.Old)
		}
	}
	if m.HasNew {
		if m.New.Unchanged {
			c.New = a.packFilled(m.New, m.Old)
		} else {
			c.New = a.pack(m.New)
		}
	}
	a.count(c)
	return StepChange, nil
}

// checkImages refuses images that are not as wide as the relation, and an unchanged
// value where none can be.
func checkImages(m *pgoutput.Message, e *entry) *core.Halt {
	switch {
	case m.HasNew && m.New.Columns != e.width:
		return e.malformed("a new row of %d columns, described with %d", m.New.Columns, e.width)
	case m.OldKind != pgoutput.OldNone && m.Old.Columns != e.width:
		return e.malformed("an old row of %d columns, described with %d", m.Old.Columns, e.width)
	case m.Old.Unchanged:
		return e.malformed("an old row with an unchanged value")
	case m.New.Unchanged:
		return checkUnchanged(m, e)
	}
	return nil
}

// checkUnchanged looks at each unchanged value of a new row. Where an old row was sent
// whole it has every value. A key must never stay unknown. An insert has unchanged values
// only when it was an update at the source: one that brings a row into the publication's
// row filter comes as an insert, and a TOAST value that it did not touch is not sent.
func checkUnchanged(m *pgoutput.Message, e *entry) *core.Halt {
	old := m.Old.Raw
	for i, v := range m.New.Values() {
		var before byte
		if m.OldKind != pgoutput.OldNone {
			before = old[0]
			old = old[columnSize(old):]
		}
		if v.Kind != 'u' || before == 't' {
			continue
		}
		if m.OldKind == pgoutput.OldRow && e.leaves&leafPartial == 0 {
			return e.malformed("column %q is unchanged in the new row and has no value in the old row", e.relation.Columns[i].Name)
		}
		if e.keyed && e.relation.Columns[i].Identity {
			return e.malformed("identity column %q is unchanged in the new row and its old value was not sent", e.relation.Columns[i].Name)
		}
	}
	return nil
}

// columnSize is the length of the first column of raw tuple data.
func columnSize(raw []byte) int {
	if raw[0] != 't' {
		return 1
	}
	return 1 + 4 + int(binary.BigEndian.Uint32(raw[1:]))
}

// begin readies the builder for a tuple and says whether it stands in shared memory.
func (a *Assembler) beginTuple(columns, rawBytes int) (shared bool) {
	buf, shared := a.rows.room(packedMax(columns, rawBytes), a.cut)
	a.builder.Begin(buf, columns)
	return shared
}

func (a *Assembler) endTuple(shared bool) core.Tuple {
	t, buf := a.builder.Tuple()
	if shared {
		a.rows.current = buf
	}
	return t
}

// packedMax bounds a packed tuple by its raw form: a value costs letter, tag and at
// most five bytes of length where the raw form has letter and four; a column without
// value costs three where the raw form has one.
func packedMax(columns, rawBytes int) int {
	const header, perColumn = 1 + 2, 2
	return header + perColumn*columns + rawBytes
}

// pack copies an image as it is.
func (a *Assembler) pack(t pgoutput.Tuple) core.Tuple {
	shared := a.beginTuple(t.Columns, len(t.Raw))
	b, raw := &a.builder, t.Raw
	for len(raw) > 0 {
		if raw[0] == 't' {
			end := 5 + int(binary.BigEndian.Uint32(raw[1:]))
			b.Add(core.ValueText, raw[5:end])
			raw = raw[end:]
			continue
		}
		b.Add(core.ValueKind(raw[0]), nil)
		raw = raw[1:]
	}
	return a.endTuple(shared)
}

// packFilled copies a new row and takes each unchanged value from the old image where
// that has it.
func (a *Assembler) packFilled(t, old pgoutput.Tuple) core.Tuple {
	shared := a.beginTuple(t.Columns, len(t.Raw)+len(old.Raw))
	before := old.Raw
	for _, v := range t.Values() {
		kind, text := core.ValueKind(v.Kind), v.Data
		if len(before) > 0 {
			size := columnSize(before)
			if v.Kind == 'u' && before[0] == 't' {
				kind, text = core.ValueText, before[5:size]
			}
			before = before[size:]
		}
		a.builder.Add(kind, text)
	}
	return a.endTuple(shared)
}

// oldKind says what the old image is worth. The letter is the identity of the relation
// that the row names, the content that of the partition it is from; see noteLeaf.
func oldKind(m *pgoutput.Message, e *entry) core.OldKind {
	whole := m.OldKind == pgoutput.OldRow
	switch {
	case whole && e.leaves&leafPartial != 0 && hasNull(m.Old):
		whole = false // a NULL may be a column that was not sent
	case !whole && e.leaves == leafFull && !e.identified:
		whole = true // no column is a key, and every partition sends whole rows
	}
	if whole {
		return core.OldFull
	}
	return core.OldKey
}

func hasNull(t pgoutput.Tuple) bool {
	for _, v := range t.Values() {
		if v.Kind == 'n' {
			return true
		}
	}
	return false
}

// packKey copies a key image. Postgres fills what is not part of the key with NULL, and
// key columns cannot be NULL, so no NULL in it is a value: all become absent.
//
// Normally the values are those of the relation's identity columns and no other is
// kept. Under a published partition root the leaf decides what was sent: where the
// root's identity columns are not all there, whatever was sent is kept, since it is all
// that identifies the row.
func (a *Assembler) packKey(e *entry, t pgoutput.Tuple) core.Tuple {
	whole := e.identified
	if whole {
		for i, v := range t.Values() {
			if e.relation.Columns[i].Identity && v.Kind != 't' {
				whole = false
			}
		}
	}
	shared := a.beginTuple(t.Columns, len(t.Raw))
	for i, v := range t.Values() {
		if v.Kind != 't' || whole && !e.relation.Columns[i].Identity {
			a.builder.Add(core.ValueAbsent, nil)
			continue
		}
		a.builder.Add(core.ValueText, v.Data)
	}
	return a.endTuple(shared)
}

// nextChange is the zero change behind the last one of the open cut.
func (a *Assembler) nextChange() *core.Change {
	if len(a.changes.current) == cap(a.changes.current) {
		a.start = a.changes.grow(a.start, a.cut)
	}
	n := len(a.changes.current)
	a.changes.current = a.changes.current[:n+1]
	return &a.changes.current[n]
}

// count makes the change that was just filled part of the transaction.
func (a *Assembler) count(c *core.Change) {
	a.total++
	a.tx.Changes = a.changes.current[a.start:len(a.changes.current):len(a.changes.current)]
	a.tx.Size += c.EncodedMax()
}
