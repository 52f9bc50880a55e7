package pipeline

import (
	"bytes"
	"context"
	"errors"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// progress is one call: the sink stores rows and token together.
func (c *sinkCourier) progress(ctx context.Context, u *core.SnapshotUnit) error {
	_, err := c.snapshot(ctx, u)
	if err == nil {
		err = injected(failpoint.Hit(failpoint.ChunkApplied))
	}
	return err
}

// progress is the sink's OK to the rows, and then the token in the row of our own: a crash
// between repeats this unit alone. A unit that says nothing of a table is the row's alone.
func (c *libCourier) progress(ctx context.Context, u *core.SnapshotUnit) error {
	if u.Relation != nil || u.BackfillComplete {
		told := *u
		told.Token = nil
		if _, err := c.snapshot(ctx, &told); err != nil {
			return err
		}
	}
	if err := injected(failpoint.Hit(failpoint.ChunkApplied)); err != nil {
		return err
	}
	return c.keepToken(ctx, u.Expected, u.Token)
}

// keepToken replaces the token by compare-and-set, so that a write that is executed late
// finds another one. A write of unknown outcome is resolved by the row itself.
func (c *libCourier) keepToken(ctx context.Context, at core.LSN, token []byte) error {
	p := c.pipeline
	move := checkpoint.Move{
		StreamID: c.call.StreamID, Epoch: c.call.Epoch, Sender: c.call.SenderID, From: at, To: at,
		Progress: token, Before: p.stored,
	}
	err := c.steadily(ctx, func() error {
		_ = failpoint.Hit(failpoint.StoreBefore)
		err := c.store.Advance(ctx, move)
		var away *checkpoint.UnavailableError
		if !errors.Is(err, checkpoint.ErrMoved) && !errors.As(err, &away) {
			return err
		}
		r, readErr := c.ours(ctx)
		switch {
		case readErr != nil:
			return readErr
		case r.Position != at:
			return regress(r.Position, at)
		case bytes.Equal(r.Progress, token):
			return nil
		case bytes.Equal(r.Progress, p.stored) && away != nil:
			return away // unwritten: the same write again
		}
		return core.NewHalt(core.HaltStoreRegress, "store", "the row holds another progress token than this sidecar left there")
	})
	if err == nil {
		p.stored = token
	}
	return err
}
