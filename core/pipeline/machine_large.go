package pipeline

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
)

// largePartsMax bounds the pieces of a large transaction that wait for the sink.
const largePartsMax = 2

// large is a transaction that does not fit in one request. It is begun once it has
// outgrown the request limit, after everything before it is durable, and then flows
// through in pieces.
type large struct {
	header  core.Transaction // without changes
	parts   []part
	changes uint64
	shaped  []*core.Relation // that were not seen before
	resumed bool             // the commit frame has its resume state
	end     core.LSN         // 0 until the commit was read
	mark    assembler.Mark
	// taken is the memory of the piece that the sink holds; it is free once the sink
	// asks for the next.
	taken    assembler.Mark
	anyTaken bool
}

type part struct {
	frame core.LargeFrame
	mark  assembler.Mark
}

// grown looks at the open transaction after a change was added to it.
func (m *Machine) grown() error {
	tx, _ := m.asm.Open()
	if len(tx.Changes) == 0 {
		return nil
	}
	last := &tx.Changes[len(tx.Changes)-1]
	size := requestHeaderMax + transactionHeaderMax + tx.Size + m.asm.RelationsSize()
	switch {
	case m.building != nil && tx.Size < m.set.Limits.PreferredBytes:
		return nil
	case m.building == nil && size <= m.set.Limits.RequestBytes && len(m.asm.Relations()) <= core.RelationsMax:
		return nil
	}
	if alone := requestHeaderMax + last.EncodedMax(); alone > m.set.Limits.RequestBytes {
		return tooLarge(core.HaltValueTooLarge, tx, last, alone, m.set.Limits.RequestBytes)
	}
	if !m.set.Large {
		return tooLarge(core.HaltTransactionTooLarge, tx, nil, size, m.set.Limits.RequestBytes)
	}
	if m.building == nil {
		if m.stalls(tx) {
			m.stalled = true
			return nil
		}
		m.seal()
		m.tell(m.changes)
		m.changes = nil
		m.building = &large{header: core.Transaction{
			XID: tx.XID, CommitLSN: tx.CommitLSN, CommitTime: tx.CommitTime, Origin: tx.Origin,
		}}
		m.doubt(tx.XID, tx.CommitLSN)
		m.queue = append(m.queue, &entry{large: m.building})
	}
	m.cut()
	return nil
}

// cut takes what was assembled so far as the next piece.
func (m *Machine) cut() {
	changes, first, mark := m.asm.TakeChanges()
	if len(changes) == 0 {
		return
	}
	if m.set.Run != nil { // a piece of which nothing is left goes too: its memory is in it
		changes = m.strip(m.building.header.XID, m.building.header.CommitLSN, changes)
		first = m.building.changes
	}
	m.building.parts = append(m.building.parts, part{core.LargeFrame{Changes: changes, FirstChangeIndex: first}, mark})
	m.building.changes += uint64(len(changes))
	m.hears(changes, m.building.header.CommitLSN)
	m.noteShapes(&m.building.shaped, changes)
}

// noteShapes takes the shapes of a unit's rows, and adds to shaped those that are new.
func (m *Machine) noteShapes(shaped *[]*core.Relation, changes []core.Change) {
	eachRelation(&core.Transaction{Changes: changes}, func(r *core.Relation) {
		if m.shapes.note(r) {
			*shaped = append(*shaped, r)
		}
	})
}

// finishLarge adds the rest of the transaction and its commit frame.
//
// One that the claim covers already ends the session: the sink stored it between the read
// of the checkpoint, where this stream began, and the claim. It has no commit frame, so
// it never happens again, and the next stream begins behind it.
func (m *Machine) finishLarge(rest core.Transaction, mark assembler.Mark) error {
	if rest.EndLSN <= m.ledger.Confirmable() {
		m.count.Skipped++
		m.halted = &again{StateStarting, reconnectMin, errCovered}
		return nil
	}
	if err := m.ledger.Received(rest.EndLSN); err != nil {
		return err
	}
	l := m.building
	m.building = nil
	rest.Changes = m.strip(rest.XID, rest.CommitLSN, rest.Changes)
	m.hears(rest.Changes, rest.CommitLSN)
	m.accepted++
	if m.set.Run != nil {
		m.set.Run.Committed(rest.XID, rest.EndLSN)
	}
	if len(rest.Changes) > 0 {
		l.parts = append(l.parts, part{core.LargeFrame{Changes: rest.Changes, FirstChangeIndex: l.changes}, mark})
		l.changes += uint64(len(rest.Changes))
		m.noteShapes(&l.shaped, rest.Changes)
	}
	l.commit(rest.EndLSN, mark)
	return nil
}

func (l *large) commit(end core.LSN, mark assembler.Mark) {
	l.end, l.mark = end, mark
	l.parts = append(l.parts, part{core.LargeFrame{Commit: &core.LargeCommit{
		EndLSN: end, Checkpoint: end, ChangeCount: l.changes,
	}}, mark})
}

// largeFromMemory is a unit of one transaction that the sink found too big.
func largeFromMemory(b *batch) *large {
	tx, mark := b.transactions[0], b.marks[0]
	l := &large{header: tx, changes: uint64(len(tx.Changes)), shaped: b.shaped}
	l.header.Changes = nil
	l.parts = []part{{core.LargeFrame{Changes: tx.Changes}, mark}}
	l.commit(tx.EndLSN, mark)
	return l
}

func (l *large) begin(expected core.LSN) *core.LargeBegin {
	return &core.LargeBegin{
		Expected: expected, XID: l.header.XID, CommitLSN: l.header.CommitLSN,
		CommitTime: l.header.CommitTime, Origin: l.header.Origin,
	}
}

// last is the memory of the newest piece.
func (l *large) last() assembler.Mark {
	if len(l.parts) == 0 {
		return l.taken
	}
	return l.parts[len(l.parts)-1].mark
}

func (l *large) allTaken() bool { return l.end != 0 && len(l.parts) == 0 }

// Part is the next piece of the large transaction in flight, if one waits.
func (m *Machine) Part() (core.LargeFrame, bool) {
	if m.flight == nil || m.flight.large == nil || len(m.flight.large.parts) == 0 {
		return core.LargeFrame{}, false
	}
	l := m.flight.large
	frame := l.parts[0].frame
	if frame.Commit != nil && !l.resumed { // all that came before is durable now
		frame.Commit.ResumeState, l.resumed = m.shapes.with(l.shaped), true
	}
	return frame, true
}

// PartTaken notes that the sink took the piece, so that it is done with the one before.
func (m *Machine) PartTaken() error {
	l := m.flight.large
	if l.anyTaken {
		m.asm.Release(l.taken)
	}
	l.taken, l.anyTaken = l.parts[0].mark, true
	l.parts = l.parts[1:]
	if l.allTaken() {
		if err := m.ledger.Delivered(l.end); err != nil {
			m.halted = err
			return err
		}
	}
	return nil
}

func tooLarge(code core.HaltCode, tx *core.Transaction, change *core.Change, size, limit int) error {
	h := core.NewHalt(code, "assemble", "%d bytes, the sink's limit is %d", size, limit)
	h.XID, h.LSN = tx.XID, tx.CommitLSN
	if change != nil && change.Relation != nil {
		h.Relation = change.Relation.String()
	}
	return h
}
