package pipeline

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// linger is the least time between two units that are not full. Under dense traffic it
// lets a unit grow; with pauses longer than this it costs no latency.
const linger = time.Millisecond

// Settings is what a session fixed before the Machine began.
type Settings struct {
	Mode     Mode
	Delivery Delivery
	Limits   core.SinkLimits // resolved
	// Large is true when the sink takes transactions in pieces.
	Large bool
	// Claimed is the position that the claim returned.
	Claimed core.LSN
}

// Machine decides what the sink is sent and what Postgres may be told. It is pure: no
// clock, goroutine, channel or I/O. Time is a value that the loop sets with At.
//
// One entry is in flight at a time. Meanwhile the open batch grows to its limits; then
// WantsInput turns false, the loop stops reading and TCP pushes back on Postgres.
type Machine struct {
	set    Settings
	asm    *assembler.Assembler
	ledger *checkpoint.Ledger
	now    time.Time

	open     *batch // grows
	openedAt time.Time
	queue    []*entry // sealed, in order
	flight   *entry
	building *large // the transaction that is being streamed in pieces, not yet committed
	spare    *batch
	lastSent time.Time

	idle    idle
	pending error // halt as soon as all that came before it is durable
	halted  error
	count   Counters
}

// Counters only rise within a session.
type Counters struct {
	Transactions, Changes, Units, IdleSteps, Replayed, Skipped, Bytes uint64
	LastCommit                                                        time.Time
}

// entry is one unit of work: exactly one of the three.
type entry struct {
	batch *batch
	large *large
	idle  core.LSN
}

// NewMachine starts at a claimed position, with an assembler that has seen nothing.
func NewMachine(set Settings, asm *assembler.Assembler, now time.Time) (*Machine, error) {
	ledger, err := checkpoint.NewLedger(set.Claimed)
	if err != nil {
		return nil, err
	}
	if set.Mode != ModeBatch {
		set.Delivery.MaxTransactions = 1
	} else if most := set.Limits.TransactionsPerBatch; most > 0 {
		set.Delivery.MaxTransactions = min(set.Delivery.MaxTransactions, most)
	}
	m := &Machine{set: set, asm: asm, ledger: ledger, now: now, open: newBatch()}
	m.idle.last = now
	return m, nil
}

// At tells the machine the time. It must be called before the other calls of a turn.
func (m *Machine) At(now time.Time) { m.now = now }

// Confirmable is the position that Postgres may be told.
func (m *Machine) Confirmable() core.LSN { return m.ledger.Confirmable() }

// Received is the highest end LSN that was read from the stream.
func (m *Machine) Received() core.LSN { return m.ledger.ReceivedLSN() }

// Count returns the session's counters.
func (m *Machine) Count() Counters { return m.count }

// InFlight reports whether the sink has work of ours.
func (m *Machine) InFlight() bool { return m.flight != nil }

// WantsInput reports whether another message may be given to Receive. While it is false
// nothing may be read, which bounds memory (I9).
func (m *Machine) WantsInput() bool {
	switch {
	case m.halted != nil || m.pending != nil:
		return false
	case m.building != nil:
		return len(m.building.parts) < largePartsMax
	}
	return len(m.queue) == 0
}

// Receive takes the next message of the stream. What is wrong with it halts once all
// that came before it is durable; see Halted.
func (m *Machine) Receive(msg *pgoutput.Message) {
	step, err := m.asm.Push(msg)
	if err == nil {
		err = m.step(step)
	}
	if err != nil {
		m.Stop(err)
	}
}

func (m *Machine) step(step assembler.Step) error {
	switch step {
	case assembler.StepNone, assembler.StepBegin:
		return nil
	case assembler.StepChange:
		return m.grown()
	case assembler.StepCommit:
		return m.committed()
	case assembler.StepSchemaChange:
		return m.reshaped(m.asm.SchemaChange())
	case assembler.StepMessage:
		return core.NewHalt(core.HaltUnsupportedMessage, "assemble", "a logical message although messages were not asked for")
	}
	return core.NewHalt(core.HaltInvariant, "assemble", "step %d is unknown", step)
}

// reshaped lets added columns pass; anything else stops at this border.
func (m *Machine) reshaped(change *core.SchemaChange) error {
	if change.Kind == core.SchemaAdditive {
		return nil
	}
	h := core.NewHalt(core.HaltSchemaDestructive, "assemble", "%s", change.What)
	h.Relation = change.After.String()
	return h
}

// committed moves a whole transaction into the open batch.
func (m *Machine) committed() error {
	tx, mark := m.asm.Take()
	if m.building != nil {
		return m.finishLarge(tx, mark)
	}
	if len(tx.Changes) == 0 {
		m.idle.candidate(tx.EndLSN)
		return nil
	}
	if tx.EndLSN <= m.ledger.Confirmable() {
		m.count.Skipped++ // the server sent what the checkpoint covers
		return nil
	}
	if err := m.ledger.Received(tx.EndLSN); err != nil {
		return err
	}
	if !m.fits(&tx) {
		m.seal()
	}
	if m.open.empty() {
		m.openedAt = m.now
	}
	m.open.add(tx, mark)
	return nil
}

func (m *Machine) fits(tx *core.Transaction) bool {
	return m.open.empty() || !m.full() && m.open.size+m.open.cost(tx) <= m.set.Limits.PreferredBytes &&
		len(m.open.relations) < core.RelationsMax/2
}

func (m *Machine) full() bool {
	return len(m.open.transactions) >= m.set.Delivery.MaxTransactions ||
		m.open.size >= m.set.Limits.PreferredBytes || m.open.span() >= m.set.Delivery.MaxSpan
}

// seal closes the open batch: it is sent as it is.
func (m *Machine) seal() {
	if m.open.empty() {
		return
	}
	m.queue = append(m.queue, &entry{batch: m.open})
	m.open, m.spare = m.spare, nil
	if m.open == nil {
		m.open = newBatch()
	}
}

// Next returns the work to start now, if there is some. What it returns is in flight
// until Acked or TooBig.
func (m *Machine) Next() (Work, bool) {
	if m.halted != nil || m.flight != nil {
		return Work{}, false
	}
	if len(m.queue) == 0 && m.due() {
		m.seal()
	}
	if len(m.queue) > 0 {
		return m.send()
	}
	if at, due := m.idleDue(); due {
		return m.sendIdle(at)
	}
	return Work{}, false
}

// due reports whether the open batch should go although it may still grow.
func (m *Machine) due() bool {
	if m.open.empty() {
		return false
	}
	if m.pending != nil || m.full() {
		return true
	}
	return !m.now.Before(m.openDue())
}

func (m *Machine) openDue() time.Time {
	due := m.lastSent.Add(linger)
	if byDelay := m.openedAt.Add(m.set.Delivery.MaxDelay); byDelay.After(due) {
		due = byDelay
	}
	return due
}

// Deadline is when Next may have work without any input; zero when never.
func (m *Machine) Deadline() time.Time {
	if m.halted != nil || m.flight != nil {
		return time.Time{}
	}
	if !m.open.empty() {
		return m.openDue()
	}
	return m.idleDeadline()
}

func (m *Machine) send() (Work, bool) {
	e := m.queue[0]
	m.queue = m.queue[1:]
	m.flight, m.lastSent = e, m.now
	m.count.Units++
	if e.large != nil {
		return Work{Large: e.large.begin(m.ledger.Confirmable())}, true
	}
	if err := m.ledger.Delivered(e.batch.end()); err != nil {
		m.halted = err
		return Work{}, false
	}
	return Work{Unit: &core.Unit{
		Expected:     m.ledger.Confirmable(),
		Checkpoint:   e.batch.end(),
		Transactions: e.batch.transactions,
	}, Size: e.batch.size}, true
}

// Acked takes the sink's answer to what is in flight. An answer other than the
// checkpoint that was asked for is a breach: nothing a sink returns is ever confirmed.
func (m *Machine) Acked(ack core.Ack) error {
	e := m.flight
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

func (e *entry) checkpoint() (core.LSN, bool) {
	switch {
	case e.large != nil:
		return e.large.end, e.large.allTaken()
	case e.batch != nil:
		return e.batch.end(), true
	}
	return e.idle, true
}

// settle counts what became durable and gives its memory back.
func (m *Machine) settle(e *entry, ack core.Ack) {
	if ack.Counts.ReplayedTransactions != nil {
		m.count.Replayed += *ack.Counts.ReplayedTransactions
	}
	switch {
	case e.large != nil:
		m.count.Transactions++
		m.count.Changes += e.large.changes
		m.count.LastCommit = e.large.header.CommitTime
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

// Halted is the reason to stop, once everything received before it is durable.
func (m *Machine) Halted() error {
	if m.halted == nil && m.pending != nil && m.flight == nil && len(m.queue) == 0 && m.open.empty() {
		m.halted = m.pending
	}
	return m.halted
}

// Stop ends the stream behind what was received: all of that is delivered, then the
// machine halts with err.
func (m *Machine) Stop(err error) {
	if m.pending == nil {
		m.pending = err
	}
}

// Stopping reports that nothing more will be received, though what came before is still
// on its way to the sink.
func (m *Machine) Stopping() bool { return m.pending != nil }

// Unfinished reports that the transaction in flight has not been read to its end.
func (m *Machine) Unfinished() bool {
	return m.flight != nil && m.flight.large != nil && m.flight.large.end == 0
}

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

func (c Counters) plus(d Counters) Counters {
	c.Transactions += d.Transactions
	c.Changes += d.Changes
	c.Units += d.Units
	c.IdleSteps += d.IdleSteps
	c.Replayed += d.Replayed
	c.Skipped += d.Skipped
	c.Bytes += d.Bytes
	if !d.LastCommit.IsZero() {
		c.LastCommit = d.LastCommit
	}
	return c
}
