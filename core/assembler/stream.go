package assembler

import (
	"errors"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// streams are the transactions in progress. What belongs to one of them, rows and
// descriptions alike, is held as it came until its fate is known, and nothing else is
// touched by it. At its commit it is replayed as if it came then (Replay), at its abort it
// is dropped. So the sink cannot tell a streamed transaction from another one, and a
// description counts only once it was committed.
type streams struct {
	byXID map[uint32]*inProgress
	block *inProgress // whose block is open; nil between blocks
	held  holdings
}

const residentDefault = 16 << 20

func newStreams(o Options) streams {
	if o.Resident <= 0 {
		o.Resident = residentDefault
	}
	return streams{byXID: map[uint32]*inProgress{}, held: holdings{most: o.Resident, spill: o.Spill}}
}

// inProgress is a top transaction of which blocks came.
type inProgress struct {
	xid    uint32
	origin string
	// messages: it holds logical messages, see ErrUnclear.
	messages bool
	holding
	// aborted are subtransactions that were rolled back and of which something may still
	// be held.
	aborted map[uint32]struct{}
}

// ErrUnclear is the cause of a halt that is none if the same WAL is read again without
// streaming. All servers send a logical message in a block under the top transaction's id, also
// one that was written behind a savepoint. If a savepoint is rolled back, nobody can say
// which of the messages went with it.
var ErrUnclear = errors.New("a savepoint was rolled back in a streamed transaction with logical messages, and the stream does not tell which of them are lost")

// InBlock reports that the stream stands between Stream Start and Stream Stop.
func (a *Assembler) InBlock() bool { return a.streams.block != nil }

// InProgress is the number of transactions in progress, and how many bytes of them are in
// memory.
func (a *Assembler) InProgress() (transactions, resident int) {
	return len(a.streams.byXID), a.streams.held.resident
}

// Close gives up what is held of transactions in progress; the server sends it again on
// the next connection. Nothing may be pushed afterwards.
func (a *Assembler) Close() {
	for xid, tx := range a.streams.byXID {
		a.streams.held.drop(&tx.holding)
		delete(a.streams.byXID, xid)
	}
	a.streams.block = nil
	a.endReplay()
	if a.halt == nil {
		a.halt = core.NewHalt(core.HaltInvariant, "assemble", "the assembler was closed")
	}
}

// streamed takes a message of a transaction in progress that stands between blocks.
func (a *Assembler) streamed(m *pgoutput.Message) (Step, *core.Halt) {
	switch {
	case m.Kind == pgoutput.KindStreamAbort && a.state == stateIdle:
		return StepNone, a.streamAbort(m)
	case m.Kind == pgoutput.KindStreamStart:
		return StepNone, a.streamStart(m)
	case m.Kind == pgoutput.KindStreamCommit:
		return a.streamCommit(m)
	case m.Kind == pgoutput.KindStreamStop:
		return StepNone, framing("Stream Stop without Stream Start")
	}
	return StepNone, core.NewHalt(core.HaltUnsupportedMessage, "assemble", "message %q (%s)", rune(m.Kind), m.Kind)
}

// streamStart opens a block. The first one of a transaction on this connection says so.
func (a *Assembler) streamStart(m *pgoutput.Message) *core.Halt {
	if a.state != stateIdle {
		return framing("Stream Start inside a transaction")
	}
	tx, known := a.streams.byXID[m.XID]
	switch {
	case m.First && known:
		return framing("a second first block of transaction %d", m.XID)
	case !m.First && !known:
		return framing("a later block of transaction %d without its first", m.XID)
	case m.First:
		tx = &inProgress{xid: m.XID}
		a.streams.byXID[m.XID] = tx
	}
	a.streams.block = tx
	return nil
}

// inBlock takes what stands between Stream Start and Stream Stop.
func (a *Assembler) inBlock(m *pgoutput.Message) (Step, *core.Halt) {
	tx := a.streams.block
	switch m.Kind {
	case pgoutput.KindStreamStop:
		a.streams.block = nil
		return StepNone, nil
	case pgoutput.KindOrigin:
		if tx.frames != 0 || tx.origin != "" {
			return StepNone, framing("Origin that does not follow the first Stream Start")
		}
		tx.origin = m.Origin
		return StepNone, nil
	case pgoutput.KindRelation:
		a.relations.arrivals++
		tx.addArrival(&a.streams.held, m.SubXID, a.relations.arrivals)
	case pgoutput.KindMessage:
		if !m.Message.Transactional {
			return StepNone, framing("a message without transaction inside a block")
		}
		tx.messages = true
	case pgoutput.KindInsert, pgoutput.KindUpdate, pgoutput.KindDelete, pgoutput.KindTruncate, pgoutput.KindType:
	default:
		return StepNone, framing("%s inside a block", m.Kind)
	}
	if m.SubXID == 0 {
		return StepNone, framing("%s without its subtransaction inside a block", m.Kind)
	}
	tx.add(&a.streams.held, m.SubXID, byte(m.Kind), m.Body)
	return StepNone, a.relieve()
}

// relieve spills the largest holding while too much is in memory.
func (a *Assembler) relieve() *core.Halt {
	for held := &a.streams.held; held.resident > held.most; {
		var largest *inProgress
		for _, tx := range a.streams.byXID {
			if largest == nil || len(tx.tail) > len(largest.tail) ||
				len(tx.tail) == len(largest.tail) && tx.xid < largest.xid {
				largest = tx
			}
		}
		if err := held.spillTail(&largest.holding); err != nil {
			return asHalt(err)
		}
	}
	return nil
}

// streamAbort drops a transaction, or one subtransaction of it: the server names each
// that is lost, children first. Of what is named nothing may have come; servers also tell
// of transactions that were never streamed.
func (a *Assembler) streamAbort(m *pgoutput.Message) *core.Halt {
	tx := a.streams.byXID[m.XID]
	switch {
	case tx == nil:
	case m.SubXID != m.XID && tx.messages:
		h := core.NewHalt(core.HaltUnsupportedMessage, "assemble", "%s", ErrUnclear)
		h.XID, h.Err = m.XID, ErrUnclear
		return h
	case m.SubXID == m.XID:
		a.streams.held.drop(&tx.holding)
		delete(a.streams.byXID, m.XID)
	default:
		tx.rollBack(&a.streams.held, m.SubXID)
	}
	return nil
}

// rollBack drops a subtransaction. Where it stands at the end of what is in memory, as it
// does when it is rolled back at once, it is cut off; a loop of such savepoints costs
// nothing. Elsewhere it is left out at the replay.
func (tx *inProgress) rollBack(all *holdings, sub uint32) {
	if tx.aborted == nil {
		tx.aborted = map[uint32]struct{}{}
	}
	tx.aborted[sub] = struct{}{}
	gone := []uint32{sub}
	for {
		last := tx.last()
		if _, aborted := tx.aborted[last]; !aborted {
			break
		}
		tx.cutOff(all)
		gone = append(gone, last)
	}
	for _, id := range gone {
		if !tx.mayHold(id) {
			delete(tx.aborted, id)
		}
	}
}

// streamCommit opens the transaction as Begin does and readies its content for Replay.
func (a *Assembler) streamCommit(m *pgoutput.Message) (Step, *core.Halt) {
	tx := a.streams.byXID[m.XID]
	if tx == nil {
		return StepNone, framing("Stream Commit of transaction %d, of which no block came", m.XID)
	}
	begin := pgoutput.Message{Kind: pgoutput.KindBegin, XID: m.XID, LSN: m.LSN, Time: m.Time}
	step, halt := a.begin(&begin)
	if halt != nil {
		return StepNone, halt
	}
	commit := *m
	commit.Kind = pgoutput.KindCommit
	if halt := a.checkCommit(&commit); halt != nil {
		return StepNone, halt
	}
	a.tx.Origin = tx.origin
	delete(a.streams.byXID, m.XID)
	a.replay = &replay{tx: tx, commit: commit, described: map[uint32]struct{}{}, decoder: pgoutput.NewDecoder(pgoutput.Options{})}
	return step, nil
}

func asHalt(err error) *core.Halt {
	if h, ok := core.AsHalt(err); ok {
		return h
	}
	return core.NewHalt(core.HaltSpillFailed, "spill", "an error of type %T", err)
}
