package pipeline

import "github.com/replicant-sidecar/replicant-sidecar/core"

// acceptance is the operator's word that the sink was adapted to changes of shape that
// halted an earlier run. It speaks of the past alone: of the shapes that were kept when
// this process first began to stream, and of what was committed before that.
type acceptance struct {
	before core.LSN          // where the source's WAL ended then
	kept   map[uint32]uint64 // the shape's hash by the relation's OID
}

// accepts passes the operator's word on. It is the same in each session: what comes later
// halts, also after a reconnect.
func (p *Pipeline) accepts(m *Machine) {
	if !p.options.AcceptSchemaChange {
		return
	}
	if p.acceptance == nil {
		p.acceptance = &acceptance{before: core.LSN(p.heard.Load()), kept: map[uint32]uint64{}}
		for oid, r := range m.shapes.byOID {
			p.acceptance.kept[oid] = r.ShapeHash()
		}
	}
	m.acceptance = p.acceptance
}

// waives reports that a destructive change of the open transaction was accepted: the table
// has its kept shape, or left it before in this transaction, and had no row since.
func (m *Machine) waives(change *core.SchemaChange) bool {
	oid := change.Before.OID
	tx, open := m.asm.Open()
	if m.acceptance == nil || !open || tx.CommitLSN >= m.acceptance.before || m.shapes.seen[oid] {
		return false
	}
	if hash, kept := m.acceptance.kept[oid]; !m.waived[oid] && (!kept || hash != change.Before.ShapeHash()) {
		return false
	}
	if m.waived == nil {
		m.waived = map[uint32]bool{}
	}
	m.waived[oid] = true
	m.waivedNow = append(m.waivedNow, change)
	return true
}

// Waived returns the changes that were accepted since it was asked last.
func (m *Machine) Waived() []*core.SchemaChange {
	list := m.waivedNow
	m.waivedNow = nil
	return list
}

// tellWaived logs what was accepted.
func (l *loop) tellWaived() {
	for _, c := range l.machine.Waived() {
		l.session.pipeline.log.Warn("a change of shape from before this start is accepted", "relation", c.After.String(), "change", c.What)
	}
}
