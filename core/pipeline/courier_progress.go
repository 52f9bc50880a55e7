package pipeline

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
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

// progress in store modes is not reached: New refuses it.
func (c *libCourier) progress(context.Context, *core.SnapshotUnit) error {
	return core.NewHalt(core.HaltInvariant, "snapshot", "an incremental snapshot with a checkpoint store")
}
