package assembler

import (
	"encoding/binary"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/stretchr/testify/require"
)

// Messages as the decoder makes them, for tables of rules.

func begin(lsn core.LSN) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindBegin, LSN: lsn, XID: 700 + uint32(lsn), Time: int64(lsn)}
}

// commit ends a transaction of that LSN ten bytes later.
func commit(lsn core.LSN) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindCommit, LSN: lsn, EndLSN: lsn + 10, Time: int64(lsn)}
}

func insert(oid uint32, values string) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindInsert, RelationOID: oid, HasNew: true, New: tuple(values)}
}

func update(oid uint32, values string) pgoutput.Message {
	m := insert(oid, values)
	m.Kind = pgoutput.KindUpdate
	return m
}

func updateFrom(oid uint32, kind byte, old, values string) pgoutput.Message {
	m := update(oid, values)
	m.OldKind, m.Old = kind, tuple(old)
	return m
}

func remove(oid uint32, kind byte, old string) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindDelete, RelationOID: oid, OldKind: kind, Old: tuple(old)}
}

func truncateOf(oids ...uint32) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindTruncate, Truncate: &pgoutput.Truncate{OIDs: oids, Cascade: true}}
}

func logical(transactional bool, lsn core.LSN, prefix, content string) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindMessage, LSN: lsn, Message: &pgoutput.LogicalMessage{
		Transactional: transactional, Prefix: []byte(prefix), Content: []byte(content)}}
}

func originOf(name string) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindOrigin, Origin: name}
}

func typeOf(oid uint32, schema, name string) pgoutput.Message {
	return pgoutput.Message{Kind: pgoutput.KindType, Type: &pgoutput.Type{OID: oid, Schema: schema, Name: name}}
}

// table describes public.t; a name with a star is a column of the identity.
func table(oid uint32, identity core.ReplicaIdentity, columns ...string) pgoutput.Message {
	r := &core.Relation{OID: oid, Schema: "public", Name: "t", Identity: identity}
	for _, name := range columns {
		c := core.Column{Name: name, TypeOID: 25, TypeModifier: -1}
		if last := len(name) - 1; name[last] == '*' {
			c.Name, c.Identity = name[:last], true
		}
		r.Columns = append(r.Columns, c)
	}
	return pgoutput.Message{Kind: pgoutput.KindRelation, RelationOID: oid, Relation: r}
}

// tuple has one letter per column: n and u stand for themselves, any other is a text
// value of that letter.
func tuple(values string) pgoutput.Tuple {
	t := pgoutput.Tuple{Columns: len(values), Raw: []byte{}}
	for _, letter := range []byte(values) {
		switch letter {
		case 'u':
			t.Unchanged = true
			t.Raw = append(t.Raw, letter)
		case 'n':
			t.Raw = append(t.Raw, letter)
		default:
			t.Raw = append(t.Raw, 't')
			t.Raw = binary.BigEndian.AppendUint32(t.Raw, 1)
			t.Raw = append(t.Raw, letter)
		}
	}
	return t
}

// letters is the reverse of tuple; a dot is an absent column, a dash is no image.
func letters(t core.Tuple) string {
	if t.IsZero() {
		return "-"
	}
	s := ""
	for _, v := range t.Values() {
		switch v.Kind {
		case core.ValueText:
			s += string(v.Text)
		case core.ValueAbsent:
			s += "."
		default:
			s += string(v.Kind)
		}
	}
	return s
}

// push sends messages that must all be accepted and returns the last step.
func push(t *testing.T, a *Assembler, messages ...pgoutput.Message) Step {
	t.Helper()
	last := StepNone
	for i := range messages {
		step, err := a.Push(&messages[i])
		require.NoError(t, err, "message %d, %s", i, messages[i].Kind)
		last = step
	}
	return last
}

// body is a message behind its tag, as Postgres writes it.
func body(m *pgoutput.Message) (b []byte) {
	be := binary.BigEndian
	text := func(s string) { b = append(append(b, s...), 0) }
	image := func(t pgoutput.Tuple) { b = append(be.AppendUint16(b, uint16(t.Columns)), t.Raw...) }
	flag := map[bool]byte{true: 1}
	switch m.Kind {
	case pgoutput.KindInsert, pgoutput.KindUpdate, pgoutput.KindDelete:
		b = be.AppendUint32(b, m.RelationOID)
		if m.OldKind != 0 {
			b = append(b, m.OldKind)
			image(m.Old)
		}
		if m.HasNew {
			b = append(b, 'N')
			image(m.New)
		}
	case pgoutput.KindTruncate:
		b = append(be.AppendUint32(b, uint32(len(m.Truncate.OIDs))), flag[m.Truncate.Cascade]|flag[m.Truncate.RestartIdentity]<<1)
		for _, oid := range m.Truncate.OIDs {
			b = be.AppendUint32(b, oid)
		}
	case pgoutput.KindMessage:
		b = be.AppendUint64(append(b, flag[m.Message.Transactional]), uint64(m.LSN))
		text(string(m.Message.Prefix))
		b = append(be.AppendUint32(b, uint32(len(m.Message.Content))), m.Message.Content...)
	case pgoutput.KindType:
		b = be.AppendUint32(b, m.Type.OID)
		text(m.Type.Schema)
		text(m.Type.Name)
	case pgoutput.KindRelation:
		b = be.AppendUint32(b, m.Relation.OID)
		text(m.Relation.Schema)
		text(m.Relation.Name)
		b = be.AppendUint16(append(b, byte(m.Relation.Identity)), uint16(len(m.Relation.Columns)))
		for _, c := range m.Relation.Columns {
			b = append(b, flag[c.Identity])
			text(c.Name)
			b = be.AppendUint32(be.AppendUint32(b, c.TypeOID), uint32(c.TypeModifier))
		}
	}
	return b
}
