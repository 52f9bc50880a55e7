package pipeline

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// An incremental snapshot runs beside the stream. What it sends are entries of the one
// queue, so that they come behind every transaction that was received before them; what it
// must know of the stream it is told here, when that is received.

// redeliveredMax transactions at the begin of a session may have been with a sink whose
// checkpoint is ours, without the row knowing.
const redeliveredMax = 1000

// hears reports changes to the run before their transaction is queued.
func (m *Machine) hears(changes []core.Change, commit core.LSN) {
	if m.set.Run == nil {
		return
	}
	again := m.again(commit)
	for i := range changes {
		m.set.Run.Change(&changes[i], again)
	}
}

// again reports that a transaction may take effect at the sink for the second time: it was
// committed when the session began, and is one of the first.
func (m *Machine) again(commit core.LSN) bool {
	lib := m.set.Mode == ModeLib || m.set.Mode == ModeLibBatched
	return lib && commit < m.set.Heard && m.accepted < max(redeliveredMax, m.set.Delivery.MaxTransactions)
}

// held is a transaction that waits, with the memory it stands in.
type held struct {
	tx   core.Transaction
	mark assembler.Mark
}

// holds keeps a transaction back that touches a table whose copy is not whole and does not
// have it. Nothing is read from the stream meanwhile.
func (m *Machine) holds(tx *core.Transaction, mark assembler.Mark) bool {
	if m.set.Run == nil || tx.EndLSN <= m.ledger.Confirmable() || !m.waits(tx) {
		return false
	}
	m.held = &held{*tx, mark}
	return true
}

// waits reports that a transaction must not be queued yet: the copy of a table is not whole,
// or it comes for the second time and it is not known whether what it leaves out can be read.
func (m *Machine) waits(tx *core.Transaction) bool {
	return m.set.Run.Holds(tx.XID, tx.Changes) || m.again(tx.CommitLSN) && m.set.Run.Unknown(tx.Changes)
}

// stalls is waits for a transaction of which only the first pieces are here.
func (m *Machine) stalls(tx *core.Transaction) bool {
	return m.set.Run != nil && (m.set.Run.HoldsPieces(tx.XID) || m.again(tx.CommitLSN) && !m.set.Run.Knows())
}

// waitsForTables reports that a transaction waits until it is known what can be read again.
func (m *Machine) waitsForTables() bool {
	if m.set.Run == nil || m.set.Run.Knows() || m.held == nil && !m.stalled {
		return false
	}
	table, _ := m.set.Run.Held()
	return table == "" // else the copy of that is what it waits for
}

// release goes on with what was held back, once the copy is whole or was given up.
func (m *Machine) release() {
	var err error
	switch {
	case m.pending != nil:
		return
	case m.stalled:
		tx, _ := m.asm.Open()
		if m.stalled = m.stalls(tx); !m.stalled {
			err = m.grown()
		}
	case m.held != nil && !m.waits(&m.held.tx):
		h := m.held
		m.held = nil
		err = m.accept(h.tx, h.mark)
	}
	if err != nil {
		m.Stop(err)
	}
}

// strip takes out what the copies of tables without a key have.
func (m *Machine) strip(xid uint32, commit core.LSN, changes []core.Change) []core.Change {
	if m.set.Run == nil {
		return changes
	}
	return m.set.Run.Strip(xid, commit, changes)
}

// stripped reports that nothing is left of a transaction.
func (m *Machine) stripped(tx *core.Transaction) bool {
	tx.Changes = m.strip(tx.XID, tx.CommitLSN, tx.Changes)
	if len(tx.Changes) > 0 {
		return false
	}
	m.set.Run.Committed(tx.XID, tx.EndLSN)
	return true
}

// passed tells the run of a position up to which every commit has come.
func (m *Machine) passed(at core.LSN) {
	if m.set.Run != nil {
		m.set.Run.Frontier(at)
	}
}

// doubt goes ahead of a transaction that is sent in pieces.
func (m *Machine) doubt(xid uint32, commit core.LSN) {
	if m.set.Run == nil {
		return
	}
	m.set.Run.Began(xid)
	if step := m.set.Run.Doubt(m.again(commit)); step != nil {
		m.queue = append(m.queue, &entry{step: step})
	}
}

// note goes ahead of a batch that needs it.
func (m *Machine) note() {
	if m.set.Run != nil && m.set.Run.NoteDue() {
		m.queue = append(m.queue, &entry{step: m.set.Run.Note()})
	}
}

// advance queues the next step of the run, behind all that was received.
func (m *Machine) advance() {
	if m.set.Run == nil || m.pending != nil || m.building != nil {
		return
	}
	if m.set.Run.NoteDue() {
		m.seal() // its note goes ahead of the batch; a step that is taken goes behind it
	}
	step := m.set.Run.Take()
	if step == nil {
		return
	}
	m.seal()
	if err := m.showsShape(step.Relation()); err != nil {
		m.Stop(err) // the step is dropped, and what it was to deliver is read again
		return
	}
	m.queue = append(m.queue, &entry{step: step})
}

// showsShape takes a relation as a chunk has it: a table that was changed and not written
// since has another shape there than the stream has shown. What such a change means is the
// same wherever it is seen.
func (m *Machine) showsShape(after *core.Relation) error {
	if after == nil {
		return nil
	}
	before := m.shapes.byOID[after.OID]
	if before == nil {
		return nil // the sink has seen no row of it
	}
	change := assembler.Compare(before, after)
	if change == nil {
		return nil
	}
	if err := m.reshaped(change); err != nil {
		return err
	}
	m.tell(m.changes)
	m.changes = nil
	m.shapes.note(after)
	return nil
}

// waiting is the number of queued entries that hold input back: steps of the run do not.
func (m *Machine) waiting() int {
	n := len(m.queue)
	for _, e := range m.queue {
		if e.step != nil {
			n--
		}
	}
	return n
}

// Order carries out what was asked for of the run, and queues a token that says so behind all
// that was received; done is false while that cannot be. The error is that of do.
func (m *Machine) Order(do func(*incremental.Run) error) (step *incremental.Step, done bool, err error) {
	if m.halted != nil || m.pending != nil || m.building != nil || !m.set.Run.Settled() {
		return nil, false, nil
	}
	if err := do(m.set.Run); err != nil {
		return nil, false, err
	}
	m.seal()
	step = m.set.Run.Note()
	m.queue = append(m.queue, &entry{step: step})
	return step, true, nil
}

func (m *Machine) sendStep(step *incremental.Step) (Work, bool) {
	u := m.set.Run.Unit(step)
	if len(u.Token) > core.ProgressTokenMax { // no store would have to take it, and no start would read it
		m.flight = nil
		m.halted = core.NewHalt(core.HaltConfigInvalid, "snapshot", "the progress token has %d bytes, of at most %d: too many tables, or keys that are too long",
			len(u.Token), core.ProgressTokenMax)
		return Work{}, false
	}
	u.Expected = m.ledger.Confirmable()
	return Work{Snapshot: u}, true
}

// stepTooBig sends what a chunk had to carry without its rows, and reads them again in
// smaller chunks.
func (m *Machine) stepTooBig(step *incremental.Step) error {
	if instead := m.set.Run.TooBig(step); instead != nil {
		m.queue = append([]*entry{{step: instead}}, m.queue...)
		return nil
	}
	m.halted = core.NewHalt(core.HaltValueTooLarge, "HandleSnapshot", "the sink refused a unit of one row, or of none, as too big")
	return m.halted
}

// Job is the next thing to read for the run.
func (m *Machine) Job() (incremental.Job, bool) {
	if m.set.Run == nil || m.halted != nil || m.pending != nil || m.asm.Replaying() {
		return incremental.Job{}, false
	}
	m.set.Run.Durable(m.ledger.Confirmable())
	return m.set.Run.Next()
}

// HoldDeadline is when Next must be asked again while a transaction waits for a copy.
func (m *Machine) HoldDeadline() time.Time {
	if m.set.Run == nil || m.halted != nil {
		return time.Time{}
	}
	return m.set.Run.HoldDeadline()
}

// Asks reports that the run waits for the stream to name a higher position.
func (m *Machine) Asks() bool {
	return m.set.Run != nil && m.halted == nil && m.flight == nil && m.set.Run.Waiting()
}

// Behind tells the run that the stream is behind.
func (m *Machine) Behind(behind bool) {
	if m.set.Run != nil {
		m.set.Run.Behind(behind)
	}
}

// RunDeadline is when Job may have something to do; zero when never.
func (m *Machine) RunDeadline() time.Time {
	if m.set.Run == nil || m.halted != nil {
		return time.Time{}
	}
	return m.set.Run.Deadline()
}
