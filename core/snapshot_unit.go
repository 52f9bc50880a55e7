package core

import "context"

// SnapshotHandler takes rows that were read beside the stream, with the state of the copy
// that must be stored with them. Such a unit moves no position.
type SnapshotHandler interface {
	HandleSnapshot(ctx context.Context, unit *SnapshotUnit) (Counts, error)
}

// SnapshotCompleteHandler takes the end of an initial copy: the first position of the
// stream, the consistent point of the copy.
type SnapshotCompleteHandler interface {
	HandleSnapshotComplete(ctx context.Context, unit *SnapshotCompleteUnit) (Ack, error)
}

// SnapshotProgressHandler gives back the token of the last stored snapshot unit, bit by
// bit. nil means that none was ever stored; an error never means that.
type SnapshotProgressHandler interface {
	SnapshotProgress(ctx context.Context, request SnapshotProgressRequest) ([]byte, error)
}

// SnapshotReset says what the first unit of a table removes before its rows.
type SnapshotReset uint8

// The resets; the zero value belongs to units that are not the first of a table.
const (
	// ResetSnapshotRows removes the rows that a snapshot wrote and no stream change has
	// touched since.
	ResetSnapshotRows SnapshotReset = iota + 1
	// ResetAll removes every row: tables without a key, and copies by replacement.
	ResetAll
)

// ProgressTokenMax is the largest progress token in bytes.
const ProgressTokenMax = 1 << 20

// SnapshotUnit is rows of one table as a snapshot showed them, or only a token.
type SnapshotUnit struct {
	Call Call
	// Expected is as in Unit.
	Expected LSN
	// Relation is nil in units without rows that belong to no table: arming, repair
	// note, completion.
	Relation *Relation
	// Rows are whole; their columns are text, NULL or not published.
	Rows []Tuple
	// LSN is where the snapshot was taken. It is told and not stored as a position.
	LSN   LSN
	RunID [16]byte
	// Generation rises with each run of the stream, from 1.
	Generation uint64
	// First opens a table, and opens it again when it is started over: Reset is carried
	// out in this unit, before its rows.
	First bool
	Reset SnapshotReset
	// Last closes a table. With Sweep the rows of the table whose generation is older
	// than this run's are removed.
	Last, Sweep bool
	// Token replaces the stored progress token; nil keeps it. It holds key values.
	Token []byte
	// BackfillComplete ends an incremental run.
	BackfillComplete bool
}

// SnapshotCompleteUnit ends an initial copy and stores its consistent point.
type SnapshotCompleteUnit struct {
	Call                 Call
	Expected, Checkpoint LSN
	RunID                [16]byte
	Generation           uint64
	// Relations lists every table that was copied, empty ones too.
	Relations   []*Relation
	ResumeState []byte
}

// SnapshotProgressRequest asks for the progress token of a stream.
type SnapshotProgressRequest struct {
	StreamID string
	Source   SourceIdentity
}
