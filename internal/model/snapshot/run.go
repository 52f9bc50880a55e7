package snapshot

// Run is what is searched: the sizes, the surroundings, and what is changed.
type Run struct {
	Keys, Transactions int8
	Crashes, Restarts  int8     // a restart is a run that is begun anew
	Parts              [2]uint8 // the keys of the two chunks
	Menu               []int    // operations
	// FreedKey adds transactions of a delete and a key change onto the freed key.
	FreedKey bool
	// StreamedFirst: a commit may be streamed before it is visible. VisibleFirst: it may be
	// visible before it is flushed.
	StreamedFirst, VisibleFirst bool
	// Lib: checkpoint and token are the sidecar's own, stored after the sink's answer.
	Lib bool
	// Ignores: the sink ignores an update with unknown columns of a row it has not seen.
	Ignores bool
	// ClearsAll: opening a table removes rows of the stream too.
	ClearsAll bool
	// Again: the table has rows at the sink, wrong ones. Sweep: a generation sweep at the
	// end removes what the source no longer has, instead of a clear at the beginning.
	Again, Sweep bool
	// Added: the table is added to the publication while a writer is open. OldServer: by a
	// server that forgets the table until the stream reconnects.
	Added, OldServer bool
	// Failover to a standby; NoSlotSync: the stream may be ahead of it.
	Failover, NoSlotSync bool
	// ReadStandby: chunks are read on a standby.
	ReadStandby bool
	Changes     Change
}

// Change is a set of deviations from the algorithm.
type Change uint64

// Lawful ones first.
const (
	// unitsUpToHigh: only what is at or below a chunk's high mark is delivered before it.
	unitsUpToHigh Change = 1 << iota
	// recordedAtDurable: windows see a change when it is durable, not when it is received.
	recordedAtDurable
	tokenApart
	clearInFirstChunk

	noRedeliveryRepair
	noEntries
	windowAfterSelect
	highBeforeSelect
	highIsFlushed
	noFrontier
	noVisibilityCheck
	noWriterWait
	oneSetPerTable
	newKeyOnly
	truncateKept
	noMerge
	noRepairList
	mergeHoles
	noteNotAhead
	tokenFirst
	readersWord
	noEpoch
	overtakes // a chunk overtakes received transactions
	originKept
	insertIfAbsent
	nullForUnchanged
	newKeyFirst
	sweepForgetsStream
	noAddedWait
	noReconnect
	noReplayWait
)

func (r *Run) has(c Change) bool { return r.Changes&c != 0 }

func (r *Run) offers(kind int) bool {
	for _, k := range r.Menu {
		if k == kind {
			return true
		}
	}
	return false
}

// inOrder: everything received is delivered before a chunk.
func (r *Run) inOrder() bool { return !r.has(unitsUpToHigh | overtakes) }

func (r *Run) start() state {
	s := state{Crashes: r.Crashes, Restarts: r.Restarts}
	if r.Again {
		s.Sink[1] = row{Plain: 9, Toast: 8, Origin: 2}
		s.Sink[r.Keys] = row{Plain: 9, Toast: 8, Origin: 2}
	}
	return s
}
