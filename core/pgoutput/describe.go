package pgoutput

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func (r *reader) relation(m *Message) {
	rel := &core.Relation{OID: r.uint32(), Schema: string(r.text()), Name: string(r.text())}
	rel.Identity = core.ReplicaIdentity(r.uint8())
	switch rel.Identity {
	case core.IdentityDefault, core.IdentityNothing, core.IdentityFull, core.IdentityIndex:
	default:
		r.fail("unknown replica identity 0x%02x", byte(rel.Identity))
	}
	columns := int(r.uint16())
	if columns > core.ColumnsMax {
		r.fail("a relation of %d columns, more than a table can have", columns)
	}
	if r.fault != nil {
		return
	}
	rel.Columns = make([]core.Column, columns)
	for i := range rel.Columns {
		c := &rel.Columns[i]
		c.Identity = r.flags(1) == 1
		c.Name = string(r.text())
		c.TypeOID = r.uint32()
		c.TypeModifier = int32(r.uint32())
	}
	m.RelationOID, m.Relation = rel.OID, rel
}

func (r *reader) typ(m *Message) {
	m.Type = &Type{OID: r.uint32(), Schema: string(r.text()), Name: string(r.text())}
}

func (r *reader) truncate(m *Message) {
	const cascade, restartIdentity = 1, 2
	count := uint64(r.uint32()) // the count stands before the options
	options := r.flags(cascade | restartIdentity)
	if count == 0 || count*4 != uint64(len(r.rest)) {
		r.fail("%d relations in %d bytes", count, len(r.rest))
		return
	}
	t := &Truncate{
		OIDs:            make([]uint32, count),
		Cascade:         options&cascade != 0,
		RestartIdentity: options&restartIdentity != 0,
	}
	for i := range t.OIDs {
		t.OIDs[i] = r.uint32()
	}
	m.Truncate = t
}

func (r *reader) origin(m *Message) {
	m.LSN = r.lsn()
	m.Origin = string(r.text())
}

func (r *reader) message(m *Message) {
	transactional := r.flags(1) == 1
	m.LSN = r.lsn()
	prefix := r.text()
	size := uint64(r.uint32())
	if size != uint64(len(r.rest)) {
		r.fail("content of %d bytes where %d are left", size, len(r.rest))
		return
	}
	m.Message = &LogicalMessage{Transactional: transactional, Prefix: prefix, Content: r.rest}
	r.rest = nil
}
