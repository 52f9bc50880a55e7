package pipeline

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// When an idle step is due: the WAL moved by idleStepBytes, or idleStepInterval passed
// since the last step, or the server waits for us.
const (
	idleStepBytes    = 16 << 20
	idleStepInterval = 10 * time.Second
	// A server that shuts down repeats one WAL end until it is confirmed, on some
	// versions without asking for a reply.
	idleRepeats       = 3
	idleRepeatsWithin = time.Second
)

// idle follows how far the WAL has moved without anything for us in it. Such a position
// is first stored at the sink, as an empty unit, and told to Postgres after that: so a
// slot above the checkpoint always means that somebody else moved it.
type idle struct {
	to      core.LSN // highest position that may be stored once all is settled
	last    time.Time
	urgent  bool
	repeats int
	since   time.Time
}

// candidate notes a position behind which the server has nothing more for us.
func (i *idle) candidate(at core.LSN) {
	if at > i.to {
		i.to, i.urgent, i.repeats = at, false, 0
	}
}

// Keepalive takes the server's word that everything that commits below walEnd was sent.
// In the middle of a transaction it says nothing.
func (m *Machine) Keepalive(walEnd core.LSN, replyRequested bool) {
	_, open := m.asm.Open()
	if open || m.asm.InBlock() {
		return
	}
	m.passed(walEnd)
	if walEnd <= m.ledger.Confirmable() {
		return
	}
	if walEnd != m.idle.to || m.idle.repeats == 0 {
		m.idle.candidate(walEnd)
		m.idle.repeats, m.idle.since = 1, m.now
	} else if m.idle.repeats++; m.idle.repeats >= idleRepeats {
		if m.now.Sub(m.idle.since) <= idleRepeatsWithin {
			m.idle.urgent = true
		}
		m.idle.repeats, m.idle.since = 1, m.now
	}
	if replyRequested {
		m.idle.urgent = true
	}
}

// settled reports that nothing was received that is not durable.
func (m *Machine) settled() bool {
	_, open := m.asm.Open()
	return m.flight == nil && len(m.queue) == 0 && m.open.empty() && !open && m.ledger.Settled()
}

func (m *Machine) idleDue() (core.LSN, bool) {
	if m.pending != nil || m.idle.to <= m.ledger.Confirmable() || !m.settled() {
		return 0, false
	}
	far := m.idle.to-m.ledger.Confirmable() >= idleStepBytes
	return m.idle.to, m.idle.urgent || far || !m.now.Before(m.idle.last.Add(idleStepInterval))
}

func (m *Machine) idleDeadline() time.Time {
	if m.pending != nil || m.idle.to <= m.ledger.Confirmable() || !m.settled() {
		return time.Time{}
	}
	return m.idle.last.Add(idleStepInterval)
}

func (m *Machine) sendIdle(to core.LSN) (Work, bool) {
	expected := m.ledger.Confirmable()
	err := m.ledger.Idle(to)
	if err == nil {
		err = m.ledger.Delivered(to)
	}
	if err != nil {
		m.halted = err
		return Work{}, false
	}
	m.idle.last, m.idle.urgent = m.now, false
	m.flight = &entry{idle: to}
	return Work{Unit: &core.Unit{Expected: expected, Checkpoint: to, ResumeState: m.shapes.with(nil)}}, true
}
