package assembler

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// Step says what a message completed.
type Step uint8

const (
	// StepNone: nothing to do yet.
	StepNone Step = iota
	// StepBegin: a transaction was opened.
	StepBegin
	// StepChange: the open transaction has one more change.
	StepChange
	// StepCommit: the transaction is whole; Take must follow before the next Push.
	StepCommit
	// StepSchemaChange: a relation has another shape from here on; see SchemaChange.
	StepSchemaChange
	// StepMessage: a logical message outside of any transaction; see Message.
	StepMessage
)

// A Stream Commit gives StepBegin; the steps of its content follow from Replay.

// Options tune an assembler. The zero value is good.
type Options struct {
	// Slab is the size of one piece of row memory in bytes; 0 means 256 KiB.
	Slab int
	// Known are shapes that were accepted up to the position the stream starts at. A
	// first description that differs from them is a schema change.
	Known []*core.Relation
	// Annotate may fill what only the catalog knows into a relation that was just
	// described, before anything refers to it: type name, base and element type,
	// position in the primary key. It must leave the shape alone.
	Annotate func(*core.Relation)
	// Resident bounds what transactions in progress hold in memory, in bytes of their
	// messages; 0 means 16 MiB. Above it the largest goes to Spill, and without a Spill the
	// assembler halts (spill_exhausted).
	Resident int
	Spill    Spill
}

type state uint8

const (
	stateIdle state = iota
	stateOpen
	stateCommitted
)

// Assembler builds transactions out of one connection's messages. It is not safe for
// use by several goroutines; what it handed out may be read by any.
type Assembler struct {
	state state
	halt  *core.Halt

	tx    core.Transaction
	start int    // where the open cut begins in changes.current
	first uint64 // index of the open cut's first change in the transaction
	total uint64 // changes of the transaction so far
	last  core.LSN

	relations relations
	rows      slabs
	changes   chunks
	cut       Mark // number of the cut that is being collected
	builder   core.TupleBuilder

	schemaChange *core.SchemaChange
	message      core.Message

	streams streams
	replay  *replay // of the streamed transaction whose commit was read
}

// New makes an assembler for a fresh connection.
func New(o Options) *Assembler {
	const defaultSlab, leastChunk = 256 << 10, 1024
	if o.Slab <= 0 {
		o.Slab = defaultSlab
	}
	return &Assembler{
		cut: 1, rows: slabs{size: o.Slab}, changes: chunks{least: leastChunk},
		relations: newRelations(o), streams: newStreams(o),
	}
}

// Push takes the next message and copies what it needs out of it. After an error every
// further Push returns that same *core.Halt.
func (a *Assembler) Push(m *pgoutput.Message) (Step, error) {
	if a.halt != nil {
		return StepNone, a.halt
	}
	return a.done(a.push(m))
}

func (a *Assembler) done(step Step, halt *core.Halt) (Step, error) {
	if halt != nil {
		a.halt = a.place(halt)
		return StepNone, a.halt
	}
	return step, nil
}

func (a *Assembler) push(m *pgoutput.Message) (Step, *core.Halt) {
	switch {
	case a.streams.block != nil:
		return a.inBlock(m)
	case a.replay != nil:
		return StepNone, core.NewHalt(core.HaltInvariant, "assemble", "a message before a streamed transaction was replayed")
	}
	if m.Kind == pgoutput.KindRelation {
		a.relations.arrivals++
		return a.describe(m, a.relations.arrivals)
	}
	return a.apply(m)
}

// apply takes a message of protocol 1, from the stream or from a replay.
func (a *Assembler) apply(m *pgoutput.Message) (Step, *core.Halt) {
	switch m.Kind {
	case pgoutput.KindInsert, pgoutput.KindUpdate, pgoutput.KindDelete:
		return a.row(m)
	case pgoutput.KindBegin:
		return a.begin(m)
	case pgoutput.KindCommit:
		return a.commit(m)
	case pgoutput.KindType:
		a.relations.learnType(m.Type)
		return StepNone, nil
	case pgoutput.KindTruncate:
		return a.truncate(m)
	case pgoutput.KindMessage:
		return a.logicalMessage(m)
	case pgoutput.KindOrigin:
		return a.origin(m)
	}
	return a.streamed(m)
}

// place says in which transaction a halt was found.
func (a *Assembler) place(h *core.Halt) *core.Halt {
	if h.XID == 0 {
		h.LSN, h.XID = a.tx.CommitLSN, a.tx.XID
	}
	if block := a.streams.block; block != nil {
		h.XID = block.xid
	}
	return h
}

// Open is the transaction that is being built, with the changes collected since the
// last cut and their size. EndLSN is 0 until the commit. What it points to is valid
// until the next call of Push, TakeChanges or Take.
func (a *Assembler) Open() (tx *core.Transaction, open bool) { return &a.tx, a.state == stateOpen }

// Count is the number of changes of the open or last finished transaction, those that
// were cut off before included.
func (a *Assembler) Count() uint64 { return a.total }

// Relations lists the relations that the changes since the last cut refer to, in the
// order of first use, and RelationsSize is the sum of their EncodedMax. Both are valid
// until the next Push or cut.
func (a *Assembler) Relations() []*core.Relation { return a.relations.used }

// RelationsSize bounds the encoded size of Relations in bytes.
func (a *Assembler) RelationsSize() int { return a.relations.usedSize }

// SchemaChange is the change after StepSchemaChange. The new shape is in force already.
func (a *Assembler) SchemaChange() *core.SchemaChange { return a.schemaChange }

// Message is the message after StepMessage. It owns its memory.
func (a *Assembler) Message() core.Message { return a.message }

// TakeChanges cuts off what was collected so far: the changes, the index of the first
// in its transaction, and the mark that releases them. The transaction stays open.
func (a *Assembler) TakeChanges() ([]core.Change, uint64, Mark) {
	changes, first := a.tx.Changes, a.first
	return changes, first, a.closeCut()
}

// Take hands out the transaction after StepCommit. Its Changes and Size are those since
// the last cut, so none after a TakeChanges that took everything, and none for an empty
// transaction.
func (a *Assembler) Take() (core.Transaction, Mark) {
	tx := a.tx
	mark := a.closeCut()
	a.first = 0
	if a.state == stateCommitted {
		a.state, a.tx = stateIdle, core.Transaction{}
	}
	return tx, mark
}

// closeCut ends the open cut and starts the next behind it.
func (a *Assembler) closeCut() Mark {
	mark := a.cut
	a.cut++
	a.start = len(a.changes.current)
	a.first = a.total
	a.tx.Changes, a.tx.Size = nil, 0
	a.relations.forgetUsed()
	return mark
}
