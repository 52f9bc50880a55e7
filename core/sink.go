package core

import (
	"context"
	"time"
)

// Sink is the door to where changes go. What else it can do it says in Capabilities,
// and it implements the one-method interfaces below for exactly that. The engine reads
// the capabilities alone and never asks by type assertion.
//
// Memory handed to a sink (tuples, messages, byte slices) is valid until the call
// returns.
type Sink interface {
	// Capabilities is the first call of every session and has no side effect.
	Capabilities(ctx context.Context) (Capabilities, error)
}

// CheckpointHandler reads, and with a claim takes over, the position stored at the sink.
type CheckpointHandler interface {
	Checkpoint(ctx context.Context, request CheckpointRequest) (Checkpoint, error)
}

// TransactionHandler makes one whole transaction and its checkpoint durable, atomically.
type TransactionHandler interface {
	HandleTransaction(ctx context.Context, unit *Unit) (Ack, error)
}

// BatchHandler makes consecutive whole transactions and their checkpoint durable,
// atomically.
type BatchHandler interface {
	HandleBatch(ctx context.Context, unit *Unit) (Ack, error)
}

// LargeTransactionHandler makes one transaction durable that arrives in pieces. Nothing
// may become visible before the commit frame was read.
type LargeTransactionHandler interface {
	HandleLargeTransaction(ctx context.Context, large LargeTransaction) (Ack, error)
}

// MessageHandler takes one logical message that belongs to no transaction.
type MessageHandler interface {
	HandleMessage(ctx context.Context, unit *MessageUnit) (Ack, error)
}

// SchemaChangeHandler is told a changed relation before the first row in the new shape.
// It may be told again and must then be harmless.
type SchemaChangeHandler interface {
	HandleSchemaChange(ctx context.Context, unit *SchemaChangeUnit) error
}

// SessionIdentityHandler may veto a source before anything is read from the sink.
type SessionIdentityHandler interface {
	HandleSessionIdentity(ctx context.Context, identity SessionIdentity) error
}

// SlotOriginHandler may veto the position at which a stream begins.
type SlotOriginHandler interface {
	HandleSlotOrigin(ctx context.Context, origin SlotOrigin) error
}

// Call is the context that every writing call carries.
type Call struct {
	StreamID string
	Owner    CheckpointOwner
	// Epoch is the claim under which the caller writes; 0 where the sink cannot fence.
	Epoch uint64
	// SenderID is random per process incarnation.
	SenderID [16]byte
	// Sequence rises with every call of an incarnation, repeats included. A sink must
	// not recognise repeats by it.
	Sequence uint64
	// InstanceID echoes the sink's own Capabilities.
	InstanceID []byte
}

// CheckpointOwner says who stores the position of a stream.
type CheckpointOwner uint8

// The two owners; the zero value is a breach on the wire.
const (
	OwnerSink CheckpointOwner = iota + 1
	OwnerSidecar
)

// Unit is one atomic piece of work: all of it and the checkpoint become durable, or
// nothing does. A unit without transactions is an idle step: it only moves the position.
type Unit struct {
	Call Call
	// Expected is the position that the caller knows durable at the sink. A sink that
	// stands below it answers ReasonCheckpointBehind. 0 when the claim returned none.
	Expected LSN
	// Checkpoint is the position to store. The sink never computes one.
	Checkpoint   LSN
	Transactions []Transaction
	// ResumeState replaces the opaque bytes stored beside the checkpoint; nil keeps them.
	ResumeState []byte
}

// Ack is the sink's word that a unit is durable.
type Ack struct {
	// Checkpoint repeats the unit's own checkpoint, also for a replay.
	Checkpoint LSN
	Counts     Counts
}

// Counts is what a unit did. A nil field was not counted.
type Counts struct {
	Inserted, Updated, Deleted, Truncated, ReplayedTransactions *uint64
}

// CheckpointRequest asks for the position of a stream.
type CheckpointRequest struct {
	StreamID string
	Source   SourceIdentity
	Claim    *Claim
}

// Claim asks to take a stream over under a higher epoch.
type Claim struct {
	Epoch    uint64
	SenderID [16]byte
}

// Checkpoint is what a sink stores for a stream.
type Checkpoint struct {
	// Position is 0 when nothing was ever stored.
	Position LSN
	// Epoch is 0 when the stream was never claimed.
	Epoch uint64
	// Lineage is made with the stored row; another one means another store. Optional.
	Lineage     []byte
	ResumeState []byte
}

// SourceIdentity names where a stream comes from. A sink binds a stream to system and
// database, never to the timeline.
type SourceIdentity struct {
	SystemIdentifier string
	Database         string
	Slot             string
	Timeline         uint32
}

// SessionIdentity is the source as the replication connection showed it.
type SessionIdentity struct {
	StreamID     string
	Source       SourceIdentity
	CurrentLSN   LSN
	Publications []string
}

// SlotOrigin is the position from which a slot will stream.
type SlotOrigin struct {
	StreamID string
	Source   SourceIdentity
	Origin   LSN
	Reused   bool
}

// MessageUnit is a logical message outside any transaction, with its position.
type MessageUnit struct {
	Call                 Call
	Expected, Checkpoint LSN
	Message              Message
	ResumeState          []byte
}

// SchemaChangeUnit tells a change between durable work in the old shape and the first
// row in the new one. It moves no position.
type SchemaChangeUnit struct {
	Call     Call
	Expected LSN
	Change   SchemaChange
}

// LargeTransaction is a transaction that arrives in pieces, pulled by the sink.
type LargeTransaction interface {
	Begin() LargeBegin
	// Next returns the following frame, valid until the next call. The commit frame is
	// the last; after it Next returns io.EOF. Any other error means that the
	// transaction never happened.
	Next(ctx context.Context) (LargeFrame, error)
}

// LargeBegin opens a large transaction. Its end LSN follows in the commit frame.
type LargeBegin struct {
	Call       Call
	Expected   LSN
	XID        uint32
	CommitLSN  LSN
	CommitTime time.Time
	Origin     string
}

// LargeFrame is one piece; exactly one of its three parts is set.
type LargeFrame struct {
	Changes          []Change
	FirstChangeIndex uint64
	SchemaChange     *SchemaChange
	Commit           *LargeCommit
}

// LargeCommit ends a large transaction.
type LargeCommit struct {
	EndLSN, Checkpoint LSN
	ChangeCount        uint64
	ResumeState        []byte
}
