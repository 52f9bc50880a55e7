package pipeline

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Acked takes the sink's answer to what is in flight. An answer other than the
// checkpoint that was asked for is a breach: nothing a sink returns is ever confirmed.
func (m *Machine) Acked(ack core.Ack) error {
	e := m.flight
	if e.schema != nil || e.step != nil { // they move no position
		if e.step != nil {
			m.set.Run.Stored(e.step)
			if r := e.step.Relation(); r != nil {
				m.shapes.settleCopied(r)
			}
		}
		m.flight = nil
		return nil
	}
	want, ok := e.checkpoint()
	switch {
	case !ok:
		m.halted = core.NewHalt(core.HaltSinkContract, "HandleLargeTransaction", "the sink said OK before the commit frame")
		return m.halted
	case ack.Checkpoint != want:
		m.halted = core.NewHalt(core.HaltSinkContract, "ack", "asked to store %s, the sink answered %s", want, ack.Checkpoint)
		return m.halted
	}
	if err := m.ledger.Durable(want); err != nil {
		m.halted = err
		return err
	}
	m.settle(e, ack)
	m.flight = nil
	return nil
}

// PartlyAcked takes the word that the batch in flight is durable up to the end of one of
// its transactions. It is the end of a session: the rest is left to the next start.
func (m *Machine) PartlyAcked(at core.LSN) error {
	if m.flight != nil && m.flight.batch != nil {
		for i := range m.flight.batch.transactions {
			if m.flight.batch.transactions[i].EndLSN == at {
				m.shapes.settle(m.flight.batch.shown(i + 1))
				return m.ledger.Durable(at)
			}
		}
	}
	return core.NewHalt(core.HaltInvariant, "ack", "%s is no border in what is in flight", at)
}

func (e *entry) checkpoint() (core.LSN, bool) {
	switch {
	case e.large != nil:
		return e.large.end, e.large.allTaken()
	case e.batch != nil:
		return e.batch.end(), true
	case e.message != nil:
		return e.message.LSN, true
	}
	return e.idle, true
}

// shaped are the relations that it shows for the first time.
func (e *entry) shaped() []*core.Relation {
	switch {
	case e.large != nil:
		return e.large.shaped
	case e.batch != nil:
		return e.batch.shaped
	}
	return nil
}

// settle counts what became durable and gives its memory back.
func (m *Machine) settle(e *entry, ack core.Ack) {
	m.count.Units++
	m.shapes.settle(e.shaped())
	if ack.Counts.ReplayedTransactions != nil {
		m.count.Replayed += *ack.Counts.ReplayedTransactions
	}
	switch {
	case e.large != nil:
		m.count.Transactions++
		m.count.Changes += e.large.changes
		m.count.LastCommit = e.large.header.CommitTime
		if m.set.Run != nil {
			m.set.Run.Doubtless()
		}
		m.asm.Release(e.large.mark)
	case e.batch != nil:
		last := len(e.batch.transactions) - 1
		m.count.Transactions += uint64(len(e.batch.transactions))
		m.count.Changes += uint64(e.batch.changes)
		m.count.Bytes += uint64(e.batch.size)
		m.count.LastCommit = e.batch.transactions[last].CommitTime
		m.asm.Release(e.batch.marks[last])
		e.batch.reset()
		m.spare = e.batch
	case e.message != nil:
		m.count.Messages++
	default:
		m.count.IdleSteps++
	}
}

// TooBig takes the answer that a unit was not done because of its size: half the batch,
// then the large path, then a halt.
func (m *Machine) TooBig() error {
	e := m.flight
	m.flight = nil
	m.ledger.NotDone()
	switch {
	case e.step != nil:
		return m.stepTooBig(e.step)
	case e.batch != nil && len(e.batch.transactions) > 1:
		first, second := e.batch.split()
		m.queue = append([]*entry{{batch: first}, {batch: second}}, m.queue...)
		m.set.Limits.PreferredBytes = max(m.set.Limits.PreferredBytes/2, preferredBytesMin)
		return nil
	case e.batch != nil && m.set.Large:
		m.queue = append([]*entry{{large: largeFromMemory(e.batch)}}, m.queue...)
		return nil
	}
	h := core.NewHalt(core.HaltTransactionTooLarge, "deliver", "the sink found one unit too large")
	m.halted = h
	return h
}

// preferredBytesMin keeps halving from ending in one request a row.
const preferredBytesMin = 16 << 10

// oldestCommit is the commit time of the oldest transaction that is not durable; zero
// when there is none.
func (m *Machine) oldestCommit() time.Time {
	first := func(e *entry) time.Time {
		switch {
		case e.large != nil:
			return e.large.header.CommitTime
		case e.batch != nil:
			return e.batch.transactions[0].CommitTime
		}
		return time.Time{}
	}
	switch {
	case m.flight != nil:
		return first(m.flight)
	case len(m.queue) > 0:
		return first(m.queue[0])
	case !m.open.empty():
		return m.open.transactions[0].CommitTime
	}
	return time.Time{}
}
