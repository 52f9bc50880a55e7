package sink

import (
	"context"
	"crypto/rand"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Store is a store with transactions, such as a database. FromStore makes a sink of it.
type Store interface {
	// Begin opens a store transaction for a unit of the stream. It lives until Commit or
	// Rollback, and may be rolled back when ctx ends.
	Begin(ctx context.Context, stream string) (StoreTx, error)
}

// StoreTx is one store transaction. Rollback after Commit is never called; after any
// error Rollback is.
type StoreTx interface {
	// Load reads the stream's row and locks it until the transaction ends, so that two
	// transactions that loaded the same row run one after the other. It reports false
	// if there is none, and an error if that cannot be told.
	Load() (StreamRow, bool, error)
	// Save stores the row. For a row that Load did not find it must fail when another
	// transaction has made one in the meantime, as a plain INSERT with a key does.
	Save(row StreamRow) error
	// Apply does the changes, in order. first is the ordinal of the first change: 0,
	// but for the later pieces of a large transaction, whose EndLSN is still 0.
	Apply(t *core.Transaction, first uint64) error
	// Commit makes all of it durable. If it returns an error, it may or may not be.
	Commit() error
	Rollback() error
}

// StreamRow is what a store keeps of a stream, in one row per stream id.
type StreamRow struct {
	Stream string
	// SystemIdentifier and Database are the source that the stream is bound to.
	SystemIdentifier, Database string
	// Lineage is made with the row and never changes: another one means another store.
	Lineage []byte
	// Epoch and Sender are of the claim that rules.
	Epoch  uint64
	Sender [16]byte
	// Position is an end LSN; 0 until the first is stored, to be kept as NULL.
	Position core.LSN
	// ResumeState is kept for the sidecar, bit by bit; nil until the first is stored.
	ResumeState []byte
}

// MessageStore is a Store that also takes logical messages outside of transactions.
type MessageStore interface {
	Store
	ApplyMessage(tx StoreTx, m *core.Message) error
}

// SchemaStore is a Store that is told changed tables before their rows. It may be told
// again and must then do no harm. It refuses with core.ReasonSchemaDeclined.
type SchemaStore interface {
	Store
	ApplySchemaChange(tx StoreTx, change *core.SchemaChange) error
}

// Counter is a StoreTx that counts. Counts is asked before Commit.
type Counter interface {
	Counts() core.Counts
}

// StoreOptions complete what a sink made by FromStore says of itself.
type StoreOptions struct {
	// Kind is core.StateMirror if nothing else is said.
	Kind   core.SinkKind
	Limits core.SinkLimits
}

// FromStore makes a sink that keeps the checkpoint in the store, in the transaction of
// the rows. It does what the contract asks of such a sink: claims and epochs, the gap
// test, the skip, idle steps, lineage, the binding to a source, resume state, and large
// transactions in one store transaction. It has CHECKPOINT, TRANSACTION, BATCH,
// LARGE_TRANSACTION and RESUME_STATE and fences by the stored epoch; a MessageStore has
// MESSAGE, a SchemaStore SCHEMA_CHANGE, a SnapshotStore the three of snapshots as well.
func FromStore(name, version string, store Store, options StoreOptions) core.Sink {
	base := &storeSink{store: store, about: core.Capabilities{
		Name: name, Version: version, Kind: options.Kind, Limits: options.Limits,
		Set: core.NewCapabilitySet(core.CapCheckpoint, core.CapTransaction, core.CapBatch,
			core.CapLargeTransaction, core.CapResumeState),
		Fencing: []core.Fencing{core.FencingStored},
	}}
	_, takesMessages := store.(MessageStore)
	base.schemas, _ = store.(SchemaStore)
	_, takesSnapshots := store.(SnapshotStore)
	if takesMessages {
		base.about.Set |= core.NewCapabilitySet(core.CapMessage)
	}
	if base.schemas != nil {
		base.about.Set |= core.NewCapabilitySet(core.CapSchemaChange)
	}
	if takesSnapshots {
		base.about.Set |= core.NewCapabilitySet(core.CapSnapshot, core.CapSnapshotComplete, core.CapSnapshotProgress)
	}
	return base.withCalls()
}

type storeSink struct {
	store   Store
	schemas SchemaStore
	about   core.Capabilities
}

// Capabilities is what the author said, and the set of what a store's sink has.
func (s *storeSink) Capabilities(context.Context) (core.Capabilities, error) { return s.about, nil }

// within runs work in a store transaction of the stream, which commits if work says so.
func (s *storeSink) within(ctx context.Context, stream string, work func(StoreTx) (commit bool, err error)) error {
	tx, err := s.store.Begin(ctx, stream)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended {
			_ = tx.Rollback() // a panic passes here too
		}
	}()
	commit, err := work(tx)
	if err != nil || !commit {
		return err
	}
	ended = true
	if err := tx.Commit(); err != nil {
		_ = tx.Rollback()
		return err
	}
	return nil
}

// Checkpoint reads or claims.
func (s *storeSink) Checkpoint(ctx context.Context, q core.CheckpointRequest) (core.Checkpoint, error) {
	var answer core.Checkpoint
	err := s.within(ctx, q.StreamID, func(tx StoreTx) (bool, error) {
		row, found, err := tx.Load()
		if err != nil {
			return false, err
		}
		next, save, err := decideClaim(row, found, q, newLineage)
		if err != nil {
			return false, err
		}
		answer = core.Checkpoint{
			Position: next.Position, Epoch: next.Epoch, Lineage: next.Lineage, ResumeState: next.ResumeState,
		}
		if save {
			err = tx.Save(next)
		}
		return save, err
	})
	return answer, err
}

func newLineage() []byte {
	lineage := make([]byte, 16)
	_, _ = rand.Read(lineage) // never fails
	return lineage
}

// HandleTransaction stores one transaction, or an idle step.
func (s *storeSink) HandleTransaction(ctx context.Context, unit *core.Unit) (core.Ack, error) {
	return s.HandleBatch(ctx, unit)
}

// HandleBatch stores whole transactions and their position.
func (s *storeSink) HandleBatch(ctx context.Context, unit *core.Unit) (core.Ack, error) {
	ack := core.Ack{Checkpoint: unit.Checkpoint}
	err := s.within(ctx, unit.Call.StreamID, func(tx StoreTx) (bool, error) {
		plan, err := s.plan(tx, unit)
		if err != nil {
			return false, err
		}
		for _, t := range plan.apply {
			if err := tx.Apply(t, 0); err != nil {
				return false, err
			}
		}
		ack.Counts = countsOf(tx, plan.replayed)
		if plan.save {
			err = tx.Save(plan.row)
		}
		return plan.save || len(plan.apply) > 0, err
	})
	return ack, err
}

// plan decides by the stored row, or, where the sidecar keeps the checkpoint, applies
// what it is sent: the fence of that mode is in memory.
func (s *storeSink) plan(tx StoreTx, unit *core.Unit) (unitPlan, error) {
	if unit.Call.Owner != core.OwnerSink {
		var all unitPlan
		for i := range unit.Transactions {
			all.apply = append(all.apply, &unit.Transactions[i])
		}
		return all, nil
	}
	row, found, err := tx.Load()
	if err != nil {
		return unitPlan{}, err
	}
	return decideUnit(row, found, unit)
}

func countsOf(tx StoreTx, replayed uint64) core.Counts {
	var counts core.Counts
	if counter, ok := tx.(Counter); ok {
		counts = counter.Counts()
	}
	counts.ReplayedTransactions = &replayed
	return counts
}
