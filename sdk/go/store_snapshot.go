package sink

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// SnapshotStore is a Store that also takes snapshots. FromStore does what the contract
// asks around them: epoch, gap test, the token in the transaction of the rows, the
// completion with its position. What a table needs is the store's work:
//
//   - A row that ApplySnapshot writes has the unit's generation, and a mark that it came
//     from a snapshot, unless the stream had written the row that it replaces.
//   - A row that Apply writes has the mark of the stream, and the generation that
//     SaveSnapshot stored last.
//
// Package sdk/go/mirror says the same for a mirror in SQL, statement by statement.
type SnapshotStore interface {
	Store
	// LoadSnapshot reads what SaveSnapshot stored for the transaction's stream; the zero
	// value if it never did, and an error if that cannot be told.
	LoadSnapshot(tx StoreTx) (SnapshotRow, error)
	// SaveSnapshot stores it in this transaction.
	SaveSnapshot(tx StoreTx, row SnapshotRow) error
	// ApplySnapshot does what the unit says of its table, in this order: with First it
	// removes what Reset names, then it replaces the row at each key by the unit's, then
	// with Sweep it removes the table's rows of an older generation. A unit without a
	// relation has no rows and nothing to remove.
	ApplySnapshot(tx StoreTx, unit *core.SnapshotUnit) error
	// CompleteSnapshot is told that the initial copy is complete, in the transaction
	// that stores its position. It may be told again.
	CompleteSnapshot(tx StoreTx, unit *core.SnapshotCompleteUnit) error
}

// SnapshotRow is what a store keeps of a stream's snapshots, in one row per stream id.
type SnapshotRow struct {
	Stream string
	// Generation is that of the latest run; it never falls.
	Generation uint64
	// Token is the sidecar's, kept bit by bit; nil until the first, and an empty one is
	// not nil. It holds key values.
	Token []byte
}

// storeSnapshots adds the three calls of snapshots to a store's sink.
type storeSnapshots struct {
	base  *storeSink
	store SnapshotStore
}

// HandleSnapshot stores a unit with its token. No position moves.
func (n storeSnapshots) HandleSnapshot(ctx context.Context, unit *core.SnapshotUnit) (core.Counts, error) {
	var counts core.Counts
	err := n.base.within(ctx, unit.Call.StreamID, func(tx StoreTx) (bool, error) {
		if err := n.mayWrite(tx, unit); err != nil {
			return false, err
		}
		if err := n.saveProgress(tx, unit); err != nil {
			return false, err
		}
		if err := n.store.ApplySnapshot(tx, unit); err != nil {
			return false, err
		}
		if counter, ok := tx.(Counter); ok {
			counts = counter.Counts()
		}
		return true, nil
	})
	return counts, err
}

func (n storeSnapshots) mayWrite(tx StoreTx, unit *core.SnapshotUnit) error {
	if unit.Call.Owner != core.OwnerSink {
		return nil // the fence of that mode is in memory
	}
	row, found, err := tx.Load()
	if err != nil {
		return err
	}
	return decideCall(row, found, &unit.Call, unit.Expected)
}

// saveProgress comes before the rows, so that a store that marks them by what is stored
// finds the generation of this run.
func (n storeSnapshots) saveProgress(tx StoreTx, unit *core.SnapshotUnit) error {
	row, err := n.store.LoadSnapshot(tx)
	if err != nil {
		return err
	}
	next, save := decideProgress(row, unit)
	if !save {
		return nil
	}
	return n.store.SaveSnapshot(tx, next)
}

// decideProgress is the snapshot row after a unit: a unit without a token keeps the
// stored one, whatever else it says, and a generation never falls.
func decideProgress(row SnapshotRow, unit *core.SnapshotUnit) (next SnapshotRow, save bool) {
	row.Stream = unit.Call.StreamID
	if unit.Generation > row.Generation {
		row.Generation, save = unit.Generation, true
	}
	if unit.Token != nil {
		row.Token, save = unit.Token, true
	}
	return row, save
}

// HandleSnapshotComplete stores completion and position together.
func (n storeSnapshots) HandleSnapshotComplete(ctx context.Context, unit *core.SnapshotCompleteUnit) (core.Ack, error) {
	ack := core.Ack{Checkpoint: unit.Checkpoint}
	err := n.base.within(ctx, unit.Call.StreamID, func(tx StoreTx) (bool, error) {
		if unit.Call.Owner != core.OwnerSink {
			return true, n.store.CompleteSnapshot(tx, unit)
		}
		row, found, err := tx.Load()
		if err != nil {
			return false, err
		}
		if err := decideCall(row, found, &unit.Call, unit.Expected); err != nil {
			return false, err
		}
		if covered(row, unit.Checkpoint) {
			return false, nil
		}
		if err := n.store.CompleteSnapshot(tx, unit); err != nil {
			return false, err
		}
		next, _ := advance(row, unit.Checkpoint, unit.ResumeState)
		return true, tx.Save(next)
	})
	return ack, err
}

// SnapshotProgress gives back the token, to the source that the stream is bound to.
func (n storeSnapshots) SnapshotProgress(ctx context.Context, q core.SnapshotProgressRequest) ([]byte, error) {
	var token []byte
	err := n.base.within(ctx, q.StreamID, func(tx StoreTx) (bool, error) {
		row, found, err := tx.Load()
		if err != nil {
			return false, err
		}
		ask := core.CheckpointRequest{StreamID: q.StreamID, Source: q.Source}
		if _, _, err := decideClaim(row, found, ask, nil); err != nil {
			return false, err
		}
		kept, err := n.store.LoadSnapshot(tx)
		token = kept.Token
		return false, err
	})
	return token, err
}
