package pipeline

import (
	"log/slog"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// Mode says what one call to the sink carries.
type Mode uint8

// The modes. A wish is one of the first three; with a Store the mode of a session is one
// of the last two.
const (
	// ModeAuto: batches where the sink advertises BATCH, else single transactions.
	ModeAuto Mode = iota
	// ModeTransaction, ModeBatch: the sink stores rows and checkpoint together.
	ModeTransaction
	ModeBatch
	// ModeLib: one transaction a call, and after its OK one write to our store.
	ModeLib
	// ModeLibBatched: the same, with one write to our store for several transactions.
	ModeLibBatched
)

// String is the word used in configuration and status.
func (m Mode) String() string {
	switch m {
	case ModeTransaction:
		return "transaction"
	case ModeBatch:
		return "batch"
	case ModeLib:
		return "lib"
	case ModeLibBatched:
		return "lib_batched"
	}
	return "auto"
}

// Delivery bounds what one unit holds.
type Delivery struct {
	Mode Mode
	// MaxTransactions of a batch; the sink's own limit counts too.
	MaxTransactions int
	// MaxDelay lets an open batch wait for more although the sink is idle. 0: it gets
	// what is there.
	MaxDelay time.Duration
	// MaxSpan flushes a batch that spans this many bytes of WAL.
	MaxSpan int64
}

// Defaults of Options fields that are zero.
const (
	maxTransactionsDefault = 1000
	maxSpanDefault         = 16 << 20
	drainTimeoutDefault    = 30 * time.Second
	storeWaitDefault       = 10 * time.Minute
	callTimeoutDefault     = core.CallTimeoutDefault
)

// Options is everything a pipeline needs. Source and Sink are required.
type Options struct {
	// StreamID names the stream at the sink; the slot's name when empty.
	StreamID string
	Source   wal.Options
	Sink     core.Sink
	Delivery Delivery
	// Spill is where transactions in progress go that do not fit in memory.
	Spill Spilling
	// Store keeps the checkpoint instead of the sink. The pipeline does not close it.
	Store checkpoint.Store
	// StoreBatch writes the store once for up to so many transactions; 0 or 1 once each.
	StoreBatch int
	// StoreWait bounds how long a Store that does not answer is tried before a halt.
	StoreWait time.Duration
	// AcceptUnfenced lets a sink without an instance fence run with a Store: after a
	// timeout or takeover an old row may then be written over a newer one.
	AcceptUnfenced bool
	// GoForwardOnly accepts that rows which exist today never reach the sink.
	GoForwardOnly bool
	// AdoptSlot takes the confirmed position of an existing slot as the beginning.
	AdoptSlot bool
	// Snapshot is how rows reach the sink that exist before the slot does.
	Snapshot checkpoint.Snapshot
	// SnapshotRedo lets the slot of an unfinished initial snapshot be dropped, once.
	SnapshotRedo bool
	// Copy bounds what a copy takes.
	Copy Copying
	// AcceptTimeline is the one timeline that is accepted after a change; 0 none.
	AcceptTimeline uint32
	// AcceptSchemaChange lets changes of shape pass that happened before this start and
	// halted the last one: of tables whose shape is kept, in what was committed before Run
	// began to stream. Each is logged; a later change halts as ever.
	AcceptSchemaChange bool
	// GuardInterval is how often slot and publications are looked at; 10 s when zero.
	GuardInterval time.Duration
	// NoHeartbeat writes nothing into a quiet source's WAL.
	NoHeartbeat  bool
	DrainTimeout time.Duration
	// SinkWait bounds how long the first answer of the sink is waited for; 0 for ever.
	SinkWait time.Duration
	Logger   *slog.Logger

	forgets bool // for tests: take the server for one that forgets added tables
}

func (o Options) withDefaults() Options {
	if o.StreamID == "" {
		o.StreamID = o.Source.Slot
	}
	if o.Delivery.MaxTransactions <= 0 {
		o.Delivery.MaxTransactions = maxTransactionsDefault
	}
	if o.Delivery.MaxSpan <= 0 {
		o.Delivery.MaxSpan = maxSpanDefault
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = drainTimeoutDefault
	}
	if o.StoreWait <= 0 {
		o.StoreWait = storeWaitDefault
	}
	o.Copy = o.Copy.withDefaults()
	if o.GuardInterval <= 0 {
		o.GuardInterval = guardIntervalDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
