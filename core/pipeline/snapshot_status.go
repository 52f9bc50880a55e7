package pipeline

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// StateCopying: rows are read and delivered that were there before the stream.
const StateCopying State = "copying"

// CopyPhase is one word of a closed set.
type CopyPhase string

// The phases of an initial copy.
const (
	CopyWaitsForSlot  CopyPhase = "slot"    // running transactions are waited for
	CopyWaitsForLocks CopyPhase = "locks"   // somebody changes a table
	CopyRuns          CopyPhase = "copying" // rows go to the sink
	CopyCompletes     CopyPhase = "completing"
	CopyPaused        CopyPhase = "paused" // nothing is read until it is resumed
	CopyDone          CopyPhase = "done"
)

// CopyStatus is what a copy shows. It holds names and numbers alone.
type CopyStatus struct {
	// Kind is "initial" or "incremental". Since is when this process began with it.
	Kind  string
	Phase CopyPhase
	Since time.Time
	// Waiting says what the copy waits for; empty while it goes on.
	Waiting string
	// Failing says why nothing can be read beside the stream, which goes on; empty while
	// something can.
	Failing string
	// Point is where the snapshot was taken; 0 before.
	Point  core.LSN
	Tables []TableProgress
	// Rows and Bytes are what the sink has said OK to; repeats are not counted twice, and
	// tables of earlier runs not at all. Bytes are of an initial copy alone.
	Rows, Bytes int64
	// XminAge is how many transactions began since the snapshot, whose rows the source
	// cannot clean up meanwhile; beside the stream only the copy of a table without a key
	// keeps one. HeldBytes is the WAL that is kept for the slot. Both are 0 at the end.
	XminAge, HeldBytes int64
}

// TableProgress is one table of a copy.
type TableProgress struct {
	Schema, Table string
	// State is "pending", "copying" or "done"; beside the stream also "gone" where the table
	// is not published any more, and "partial" where its copy was cancelled.
	State string
	// Rows and Bytes were delivered. Bytes are of packed rows.
	Rows, Bytes int64
	// EstimatedRows is the planner's, -1 when it has none. SourceBytes is the table's
	// size on the source's disk.
	EstimatedRows, SourceBytes int64
	// Restarts is how often the table was begun again.
	Restarts int
	// Earlier: the table was copied by a run before this one, and is not read by it.
	Earlier bool
}

// copyBeside is the kind of a copy beside the stream.
const copyBeside = "incremental"

// The states of a table.
const (
	TablePending = "pending"
	TableCopying = "copying"
	TableDone    = "done"
	TablePartial = "partial"
)

// showCopy replaces the copy's status by a changed one.
func (p *Pipeline) showCopy(change func(*CopyStatus)) {
	p.board.update(func(st *Status) {
		next := CopyStatus{}
		if st.Copy != nil {
			next = *st.Copy
		}
		change(&next)
		st.Copy = &next
	})
}
