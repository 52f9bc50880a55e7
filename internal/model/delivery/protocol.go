package delivery

// Budget is how often each fault may strike.
type Budget struct {
	Timeouts     int8 // calls whose sender gives up
	SinkRestarts int8 // the sink process loses its memory
	Regresses    int8 // an upstream crash moves the slot back to its beginning
	Advances     int8 // somebody else moves the slot ahead
	Restores     int8 // the checkpoint's store goes back to before its newest unit
}

// Protocol is one search: a mode, its faults, and what differs from the protocol.
type Protocol struct {
	// Lib: the sidecar owns the checkpoint, in a row of its own store. Otherwise the
	// sink stores it together with the rows.
	Lib bool
	// Batch: units of several transactions (sink-owned), or one row write for several
	// (lib).
	Batch bool
	// Sidecars is the number of incarnations, 2 or 3.
	Sidecars int
	Budget   Budget
	// IdleMiddle chooses the layout with an idle stretch before a commit.
	IdleMiddle bool
	Changes    Change
	// SkipStart: transactions are skipped by their commit LSN, compared with positions
	// of these origins.
	SkipStart origin

	layout [items]item
}

// has reports whether any of the changes is made.
func (p *Protocol) has(c Change) bool { return p.Changes&c != 0 }

// Change is a way to differ from the protocol.
type Change uint64

// Lawful variants: these must hold as the protocol does.
const (
	// rereadInSession resolves an unknown unit by reading the sink's checkpoint inside
	// the session, instead of ending it.
	rereadInSession Change = 1 << iota
	// readAndStartInOneStep lets nothing happen between the read of the checkpoint and
	// the start of the stream: fewer states.
	readAndStartInOneStep
	// openReadsOnly learns the sink's instance by a plain read.
	openReadsOnly
	// rowsOnly does not judge who wrote, only what is written.
	rowsOnly
	// twoInFlight sends a second unit before the first was answered.
	twoInFlight
	// skipStartBelow skips commit_lsn < position. It is the same set while positions
	// are record borders.
	skipStartBelow
)

// Mutants: what is acknowledged, and when.
const (
	ackReceived Change = 1 << (iota + 8)
	ackWhatSinkReturned
	unknownIsDone
	ackIdleWhileOpen
	// ackIdleUnstored tells an idle position to the slot and stores it nowhere.
	ackIdleUnstored
	// ackIdleBeforeStored tells it to the slot first and stores it then.
	ackIdleBeforeStored
	// messagePastBatch delivers and acknowledges a message while a batch is open.
	messagePastBatch
	rowBeforeSink
	sinkIgnoresEmptyUnits
)

// Mutants: who may write.
const (
	noFencing Change = 1 << (iota + 17)
	epochOutsideTransaction
	claimWithoutSender
	noExpectedCheckpointTest
	noExpectedInFirstUnit
	noMemoryFence
	noSequence
	noInstance
	verifyRowBeforeOpen
	noVerify
	rowWithoutCompareAndSet
)

// Mutants: where to begin.
const (
	// unreadableIsEmpty takes a checkpoint that cannot be read for an absent one.
	unreadableIsEmpty Change = 1 << (iota + 28)
	// startFromSlot takes the slot's position for the truth.
	startFromSlot
	positionFromRead
	slotAheadBeforeOwned
	noSlotAheadTest
	noReconnectBelowStart
	startPlusOne
	handoffMinusOne
)

// Mutants: which number is compared.
const (
	skipEndBelow Change = 1 << (iota + 36)
	skipWholeBatch
	skipStartAtSinkOnly
	// storeCommitLSN stores the commit LSN and compares the end.
	storeCommitLSN
	// commitLSNForm stores and compares the commit LSN and tells the slot the end.
	commitLSNForm
	// claimFromTheTop is lawful: a claim without an answer ends the session, and the next
	// one claims one above what is stored by then, instead of the same claim again.
	claimFromTheTop
)

// start is the state before anything ran.
func (p *Protocol) start() State {
	s := State{
		Confirmed: consistentPoint, Owner: nobody,
		SinkPosition: consistentPoint, RowPosition: consistentPoint, SinkSender: nobody,
		Instance: 1, Left: p.Budget,
	}
	if p.has(handoffMinusOne | commitLSNForm) {
		s.SinkPosition, s.RowPosition = consistentPoint-1, consistentPoint-1
	}
	if p.has(commitLSNForm) {
		s.Confirmed = consistentPoint - 1
	}
	return s
}
