package assembler

import (
	"bytes"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

func framing(format string, args ...any) *core.Halt {
	return core.NewHalt(core.HaltBadFraming, "assemble", format, args...)
}

func (a *Assembler) begin(m *pgoutput.Message) (Step, *core.Halt) {
	switch a.state {
	case stateOpen:
		return StepNone, framing("Begin inside a transaction")
	case stateCommitted:
		return StepNone, core.NewHalt(core.HaltInvariant, "assemble", "a finished transaction was not taken")
	}
	a.state = stateOpen
	a.tx = core.Transaction{XID: m.XID, CommitLSN: m.LSN, CommitTime: pgoutput.Time(m.Time)}
	a.first, a.total = 0, 0
	return StepBegin, nil
}

// commit closes the transaction. Its end LSN is compared with end LSNs alone: the
// commit record of one transaction can start where the one before it ended.
func (a *Assembler) commit(m *pgoutput.Message) (Step, *core.Halt) {
	if halt := a.checkCommit(m); halt != nil {
		return StepNone, halt
	}
	a.state, a.last = stateCommitted, m.EndLSN
	a.tx.EndLSN, a.tx.CommitTime = m.EndLSN, pgoutput.Time(m.Time)
	return StepCommit, nil
}

func (a *Assembler) checkCommit(m *pgoutput.Message) *core.Halt {
	switch {
	case a.state != stateOpen:
		return framing("Commit without Begin")
	case m.LSN != a.tx.CommitLSN:
		return framing("Commit at %s, but Begin announced %s", m.LSN, a.tx.CommitLSN)
	case m.EndLSN <= m.LSN:
		return framing("Commit at %s ends at %s", m.LSN, m.EndLSN)
	case m.EndLSN <= a.last:
		return framing("end LSN %s does not lie beyond %s", m.EndLSN, a.last)
	}
	return nil
}

func (a *Assembler) origin(m *pgoutput.Message) (Step, *core.Halt) {
	if a.state != stateOpen || a.total != 0 || a.tx.Origin != "" {
		return StepNone, framing("Origin that does not follow Begin")
	}
	a.tx.Origin = m.Origin
	return StepNone, nil
}

func (a *Assembler) truncate(m *pgoutput.Message) (Step, *core.Halt) {
	if a.state != stateOpen {
		return StepNone, framing("Truncate outside of a transaction")
	}
	t := &core.Truncate{
		Relations:       make([]*core.Relation, len(m.Truncate.OIDs)),
		Cascade:         m.Truncate.Cascade,
		RestartIdentity: m.Truncate.RestartIdentity,
	}
	for i, oid := range m.Truncate.OIDs {
		e, halt := a.relations.use(oid)
		if halt != nil {
			return StepNone, halt
		}
		t.Relations[i] = e.relation
	}
	a.relations.described = nil
	c := a.nextChange()
	c.Op, c.Truncate = core.OpTruncate, t
	a.count(c)
	return StepChange, nil
}

// logicalMessage puts a transactional message at its place among the rows. Its LSN is
// the end of its record and may repeat the LSN of a row or of a commit record.
func (a *Assembler) logicalMessage(m *pgoutput.Message) (Step, *core.Halt) {
	body := m.Message
	message := core.Message{Transactional: body.Transactional, LSN: m.LSN}
	if !body.Transactional {
		switch {
		case a.state != stateIdle:
			return StepNone, framing("a message without transaction inside a transaction")
		case m.LSN <= a.last:
			return StepNone, framing("message at %s does not lie beyond %s", m.LSN, a.last)
		}
		a.last = m.LSN
		message.Prefix, message.Content = bytes.Clone(body.Prefix), bytes.Clone(body.Content)
		a.message = message
		return StepMessage, nil
	}
	if a.state != stateOpen {
		return StepNone, framing("a transactional message outside of a transaction")
	}
	message.Prefix, message.Content = a.keep(body.Prefix), a.keep(body.Content)
	c := a.nextChange()
	c.Op, c.Message = core.OpMessage, &message
	a.count(c)
	return StepChange, nil
}

// keep copies bytes into row memory.
func (a *Assembler) keep(b []byte) []byte {
	buf, shared := a.rows.room(len(b), a.cut)
	start := len(buf)
	buf = append(buf, b...)
	if shared {
		a.rows.current = buf
	}
	return buf[start:len(buf):len(buf)]
}
