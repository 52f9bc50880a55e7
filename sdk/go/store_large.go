package sink

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// HandleLargeTransaction applies the pieces in one open store transaction as they
// arrive. Epoch and gap are tested first in a transaction of their own, so that the
// stream's row is not locked while frames are waited for, and again, with the skip, in
// the one that writes.
func (s *storeSink) HandleLargeTransaction(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
	begin := large.Begin()
	if err := s.mayBegin(ctx, &begin); err != nil {
		return core.Ack{}, err
	}
	var ack core.Ack
	err := s.within(ctx, begin.Call.StreamID, func(tx StoreTx) (bool, error) {
		commit, err := s.applyFrames(ctx, tx, large, &begin)
		if err != nil {
			return false, err
		}
		ack.Checkpoint = commit.Checkpoint
		if begin.Call.Owner != core.OwnerSink {
			ack.Counts = countsOf(tx, 0)
			return true, nil
		}
		return s.finishLarge(tx, &begin, commit, &ack)
	})
	return ack, err
}

func (s *storeSink) mayBegin(ctx context.Context, begin *core.LargeBegin) error {
	if begin.Call.Owner != core.OwnerSink {
		return nil
	}
	return s.within(ctx, begin.Call.StreamID, func(tx StoreTx) (bool, error) {
		row, found, err := tx.Load()
		if err != nil {
			return false, err
		}
		return false, decideCall(row, found, &begin.Call, begin.Expected)
	})
}

func (s *storeSink) applyFrames(ctx context.Context, tx StoreTx, large core.LargeTransaction, begin *core.LargeBegin) (*core.LargeCommit, error) {
	piece := core.Transaction{
		XID: begin.XID, CommitLSN: begin.CommitLSN, CommitTime: begin.CommitTime, Origin: begin.Origin,
	}
	for {
		frame, err := large.Next(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case frame.Commit != nil:
			return frame.Commit, nil
		case frame.SchemaChange != nil && s.schemas == nil:
			return nil, refuse(core.ReasonSchemaDeclined, "this sink is not told schema changes")
		case frame.SchemaChange != nil:
			err = s.schemas.ApplySchemaChange(tx, frame.SchemaChange)
		default:
			piece.Changes = frame.Changes
			err = tx.Apply(&piece, frame.FirstChangeIndex)
		}
		if err != nil {
			return nil, err
		}
	}
}

// finishLarge decides once more, now on the locked row. A transaction that the store has
// already is dropped whole.
func (s *storeSink) finishLarge(tx StoreTx, begin *core.LargeBegin, commit *core.LargeCommit, ack *core.Ack) (bool, error) {
	row, found, err := tx.Load()
	if err != nil {
		return false, err
	}
	if err := decideCall(row, found, &begin.Call, begin.Expected); err != nil {
		return false, err
	}
	if covered(row, commit.EndLSN) {
		one := uint64(1)
		ack.Counts = core.Counts{ReplayedTransactions: &one}
		return false, nil
	}
	ack.Counts = countsOf(tx, 0)
	next, _ := advance(row, commit.Checkpoint, commit.ResumeState)
	return true, tx.Save(next)
}

// storeMessages adds HandleMessage to a store's sink.
type storeMessages struct {
	base  *storeSink
	store MessageStore
}

// HandleMessage stores a message's effect and its position together.
func (m storeMessages) HandleMessage(ctx context.Context, unit *core.MessageUnit) (core.Ack, error) {
	ack := core.Ack{Checkpoint: unit.Checkpoint}
	err := m.base.within(ctx, unit.Call.StreamID, func(tx StoreTx) (bool, error) {
		if unit.Call.Owner != core.OwnerSink {
			return true, m.store.ApplyMessage(tx, &unit.Message)
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
		if err := m.store.ApplyMessage(tx, &unit.Message); err != nil {
			return false, err
		}
		next, _ := advance(row, unit.Checkpoint, unit.ResumeState)
		return true, tx.Save(next)
	})
	return ack, err
}

// storeSchemas adds HandleSchemaChange to a store's sink.
type storeSchemas struct {
	base  *storeSink
	store SchemaStore
}

// HandleSchemaChange tells the store a new shape. No position moves.
func (c storeSchemas) HandleSchemaChange(ctx context.Context, unit *core.SchemaChangeUnit) error {
	return c.base.within(ctx, unit.Call.StreamID, func(tx StoreTx) (bool, error) {
		if unit.Call.Owner == core.OwnerSink {
			row, found, err := tx.Load()
			if err != nil {
				return false, err
			}
			if err := decideCall(row, found, &unit.Call, unit.Expected); err != nil {
				return false, err
			}
		}
		return true, c.store.ApplySchemaChange(tx, &unit.Change)
	})
}
