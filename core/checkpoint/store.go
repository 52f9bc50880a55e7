package checkpoint

import (
	"context"
	"errors"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Record is the sidecar's own row for one stream, where the sink does not keep the
// checkpoint. It is changed only by Claim and Advance, each one guarded write.
type Record struct {
	// Lineage is made with the row; another one means another row.
	Lineage [16]byte
	// Epoch counts claims; Sender is the incarnation that made the last one.
	Epoch  uint64
	Sender [16]byte
	// Position is the end LSN up to which everything was handed to the sink; 0 never.
	Position core.LSN
	// Base is the position before the last one.
	Base core.LSN
	// Source binds the row to system identifier and database.
	Source core.SourceIdentity
	// SinkName is the sink that the position was reached with.
	SinkName    string
	ResumeState []byte
}

// Claiming asks to take the row over, or to make it where there is none.
type Claiming struct {
	StreamID string
	// Read is the epoch that was read; the row's new epoch is one above it.
	Read     uint64
	Sender   [16]byte
	Source   core.SourceIdentity
	SinkName string
}

// Move is a new position, valid only while the row is still ours and stands at From.
type Move struct {
	StreamID string
	Epoch    uint64
	From, To core.LSN
	// ResumeState replaces what is stored; nil keeps it.
	ResumeState []byte
}

// ErrOvertaken: the row is not as it was read; somebody else has claimed. ErrMoved: the
// guarded write matched no row. Both change nothing.
var (
	ErrOvertaken = errors.New("the checkpoint row has been claimed by somebody else")
	ErrMoved     = errors.New("the checkpoint row is not ours or does not stand where it was expected")
)

// UnavailableError is a fault of the store that a retry may mend: the outcome of a write
// is then unknown. Every other error of a store is a *core.Halt.
type UnavailableError struct {
	// Op is read, claim or advance; Reason is in our own words.
	Op, Reason string
}

// Error names operation and reason.
func (e *UnavailableError) Error() string { return "checkpoint store: " + e.Op + ": " + e.Reason }

// Store keeps the rows of streams. What it has answered is durable.
type Store interface {
	// Read returns the row; found is false when there is none. An error is never "none".
	Read(ctx context.Context, streamID string) (r Record, found bool, err error)
	// Claim writes epoch and sender if the row's epoch is still the one read, and
	// returns the whole row as it then stands. A repeat by the same sender succeeds.
	Claim(ctx context.Context, c Claiming) (Record, error)
	// Advance moves the position by compare-and-set on epoch and position.
	Advance(ctx context.Context, m Move) error
	Close() error
}

// SameSource refuses a row that belongs to another database.
func SameSource(stored, now core.SourceIdentity) error {
	if stored.SystemIdentifier == now.SystemIdentifier && stored.Database == now.Database {
		return nil
	}
	return core.NewHalt(core.HaltSourceMismatch, "store", "the checkpoint row belongs to another database cluster or database")
}
