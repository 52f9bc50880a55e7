package checkpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"math"

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
	// Progress is the token of an incremental snapshot; nil when there was none.
	Progress []byte
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
	// Epoch and Sender are the claim under which the row is ours. The epoch alone would
	// not do: a store that was restored hands the same one out twice.
	Epoch  uint64
	Sender [16]byte
	// From is 0 while the row has no position.
	From, To core.LSN
	// ResumeState replaces what is stored; nil keeps it.
	ResumeState []byte
	// Progress replaces the stored token, if that is Before; nil keeps it. With it To may
	// be From: a copy moves no position.
	Progress, Before []byte
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

// Check refuses a claim that no row can take.
func (c Claiming) Check() error {
	if c.StreamID == "" || c.Read == math.MaxUint64 {
		return core.NewHalt(core.HaltInvariant, "claim", "a claim without a stream, or above the highest epoch")
	}
	return nil
}

// Repeats reports whether r is what this claim has made already.
func (c Claiming) Repeats(r Record) bool { return r.Epoch == c.Read+1 && r.Sender == c.Sender }

// Fresh is the row that a first claim makes, with a lineage of its own.
func (c Claiming) Fresh() Record {
	r := Record{Epoch: 1, Sender: c.Sender, Source: c.Source, SinkName: c.SinkName}
	_, _ = rand.Read(r.Lineage[:]) // documented never to fail
	return r
}

// Check refuses a move that would not go forward.
func (m Move) Check() error {
	if m.StreamID == "" || m.Epoch == 0 || m.To < m.From || m.To == m.From && m.Progress == nil {
		return core.NewHalt(core.HaltInvariant, "advance", "a move from %s to %s under epoch %d", m.From, m.To, m.Epoch)
	}
	return nil
}

// Moves reports whether r is the row, and stands where the move begins.
func (m Move) Moves(r Record) bool {
	return r.Epoch == m.Epoch && r.Sender == m.Sender && r.Position == m.From &&
		(m.Progress == nil || bytes.Equal(r.Progress, m.Before))
}

// SameSource refuses a row that belongs to another database.
func SameSource(stored, now core.SourceIdentity) error {
	if stored.SystemIdentifier == now.SystemIdentifier && stored.Database == now.Database {
		return nil
	}
	return core.NewHalt(core.HaltSourceMismatch, "store", "the checkpoint row belongs to another database cluster or database")
}
