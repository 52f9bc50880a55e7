package pipeline

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// linger is the least time between two units that are not full. Under dense traffic it
// lets a unit grow; with pauses longer than this it costs no latency. A stream that is
// behind by behindAge has no latency to lose and grows its units further.
const (
	linger       = time.Millisecond
	lingerBehind = 5 * time.Millisecond
	behindAge    = 100 * time.Millisecond
)

// Settings is what a session fixed before the Machine began.
type Settings struct {
	Mode     Mode
	Delivery Delivery
	Limits   core.SinkLimits // resolved
	// Large is true when the sink takes transactions in pieces, Messages when logical
	// messages were asked for, SchemaChanges when it is told changed relations.
	Large, Messages, SchemaChanges bool
	// Claimed is the position that the claim returned.
	Claimed core.LSN
	// KeepShapes stores the shapes of delivered rows beside the checkpoint; Resume is
	// what was stored before, Timeline the source's.
	KeepShapes bool
	Resume     resumeState
	Timeline   uint32
	// Crowded is told when there are too many shapes to store; it may be nil.
	Crowded func(tables int)
	// Run is the incremental snapshot beside the stream; nil for none.
	Run *incremental.Run
	// Heard is where the source's WAL ended when the session began.
	Heard core.LSN
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
	held     *held  // a transaction that waits for the copy of a table
	stalled  bool   // the open transaction must be sent in pieces, and waits for one
	accepted int    // transactions of this session
	building *large // the transaction that is being streamed in pieces, not yet committed
	spare    *batch
	lastSent time.Time
	behind   bool // the newest transaction was committed a while ago, by the two clocks

	idle   idle
	shapes shapes
	// changes are shapes that changed inside the transaction that is being assembled.
	changes []*core.SchemaChange

	acceptance *acceptance // nil without
	// waived are tables whose destructive change was accepted, waivedNow such changes that
	// Waived has not told yet.
	waived    map[uint32]bool
	waivedNow []*core.SchemaChange

	pending error // halt as soon as all that came before it is durable
	halted  error
	count   Counters
}

// Counters only rise within a session.
type Counters struct {
	Transactions, Changes, Messages, Units, IdleSteps, Replayed, Skipped, Bytes uint64
	// Streamed counts transactions whose content came before their commit.
	Streamed   uint64
	LastCommit time.Time
}

// entry is one unit of work: exactly one of the six.
type entry struct {
	step    *incremental.Step
	batch   *batch
	large   *large
	message *core.Message
	schema  *core.SchemaChange
	idle    core.LSN
}

// NewMachine starts at a claimed position, with an assembler that has seen nothing.
func NewMachine(set Settings, asm *assembler.Assembler, now time.Time) (*Machine, error) {
	ledger, err := checkpoint.NewLedger(set.Claimed)
	if err != nil {
		return nil, err
	}
	if set.Mode == ModeTransaction || set.Mode == ModeLib {
		set.Delivery.MaxTransactions = 1
	} else if most := set.Limits.TransactionsPerBatch; most > 0 {
		set.Delivery.MaxTransactions = min(set.Delivery.MaxTransactions, most)
	}
	m := &Machine{set: set, asm: asm, ledger: ledger, now: now, open: newBatch()}
	m.idle.last = now
	m.shapes = newShapes(set.KeepShapes, set.Resume, set.Timeline)
	m.shapes.told = set.Crowded
	if set.Mode == ModeTransaction || set.Mode == ModeBatch { // it travels in a request
		m.shapes.most = min(resumeStateMax, set.Limits.RequestBytes/2)
	}
	return m, nil
}

// At tells the machine the time. It must be called before the other calls of a turn.
func (m *Machine) At(now time.Time) {
	m.now = now
	if m.set.Run != nil {
		m.set.Run.At(now)
	}
}

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
func (m *Machine) WantsInput() bool { return m.room() && !m.asm.Replaying() }

func (m *Machine) room() bool {
	switch {
	case m.halted != nil || m.pending != nil || m.held != nil || m.stalled:
		return false
	case m.building != nil:
		return len(m.building.parts) < largePartsMax
	}
	return m.waiting() == 0
}

// Receive takes the next message of the stream. What is wrong with it halts once all
// that came before it is durable; see Halted.
func (m *Machine) Receive(msg *pgoutput.Message) {
	m.took(m.asm.Push(msg))
	if m.asm.Replaying() {
		m.count.Streamed++
		m.Replay()
	}
}

func (m *Machine) took(step assembler.Step, err error) {
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
		return m.told(m.asm.Message())
	}
	return core.NewHalt(core.HaltInvariant, "assemble", "step %d is unknown", step)
}

// committed moves a whole transaction into the open batch.
func (m *Machine) committed() error {
	tx, mark := m.asm.Take()
	if m.building != nil {
		return m.finishLarge(tx, mark)
	}
	if len(tx.Changes) == 0 { // a change of shape waits for the rows that it is for
		m.idle.candidate(tx.EndLSN)
		m.passed(tx.EndLSN)
		return nil
	}
	if m.holds(&tx, mark) {
		return nil
	}
	return m.accept(tx, mark)
}

// accept takes a whole transaction that nothing holds back.
func (m *Machine) accept(tx core.Transaction, mark assembler.Mark) error {
	changes := m.changes
	m.changes = nil
	if tx.EndLSN <= m.ledger.Confirmable() {
		m.count.Skipped++ // the server sent what the checkpoint covers
		m.passed(tx.EndLSN)
		return nil
	}
	if m.stripped(&tx) {
		m.changes = changes
		m.idle.candidate(tx.EndLSN)
		return nil
	}
	if err := m.ledger.Received(tx.EndLSN); err != nil {
		return err
	}
	m.behind = m.now.Sub(tx.CommitTime) > behindAge
	if len(changes) > 0 || !m.fits(&tx) {
		m.seal()
	}
	m.tell(changes)
	m.hears(tx.Changes, tx.CommitLSN)
	m.accepted++
	if m.set.Run != nil {
		m.set.Run.Committed(tx.XID, tx.EndLSN)
	}
	if m.open.empty() {
		m.openedAt = m.now
	}
	m.open.add(tx, mark)
	var shaped []*core.Relation
	m.noteShapes(&shaped, tx.Changes)
	m.open.shapes(shaped)
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
	m.note()
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
	m.release()
	m.advance()
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
	if m.behind {
		due = m.lastSent.Add(lingerBehind)
	}
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
	switch {
	case e.step != nil:
		return m.sendStep(e.step)
	case e.large != nil:
		return Work{Large: e.large.begin(m.ledger.Confirmable())}, true
	case e.schema != nil:
		return Work{Schema: &core.SchemaChangeUnit{Expected: m.ledger.Confirmable(), Change: *e.schema}}, true
	}
	to, _ := e.checkpoint()
	if err := m.ledger.Delivered(to); err != nil {
		m.halted = err
		return Work{}, false
	}
	if e.message != nil {
		return Work{Message: &core.MessageUnit{
			Expected: m.ledger.Confirmable(), Checkpoint: to, Message: *e.message, ResumeState: m.shapes.with(nil),
		}}, true
	}
	b := e.batch
	return Work{
		Unit: &core.Unit{
			Expected: m.ledger.Confirmable(), Checkpoint: to, Transactions: b.transactions, ResumeState: m.shapes.with(b.shaped),
		},
		Border: func(n int) []byte { return m.shapes.with(b.shown(n)) },
	}, true
}

// Halted is the reason to stop, once everything received before it is durable.
func (m *Machine) Halted() error {
	if m.halted == nil && m.pending != nil && m.delivered() {
		m.halted = m.pending
	}
	return m.halted
}

// delivered reports that all that was received whole is durable. A transaction that is
// being taken in pieces and will not come to its end does not count.
func (m *Machine) delivered() bool {
	torn := func(e *entry) bool { return m.building != nil && e.large == m.building }
	return m.open.empty() && (m.flight == nil || torn(m.flight)) &&
		(len(m.queue) == 0 || len(m.queue) == 1 && torn(m.queue[0]))
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

func (c Counters) plus(d Counters) Counters {
	c.Transactions += d.Transactions
	c.Changes += d.Changes
	c.Messages += d.Messages
	c.Units += d.Units
	c.IdleSteps += d.IdleSteps
	c.Replayed += d.Replayed
	c.Skipped += d.Skipped
	c.Streamed += d.Streamed
	c.Bytes += d.Bytes
	if !d.LastCommit.IsZero() {
		c.LastCommit = d.LastCommit
	}
	return c
}
