package pipeline

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// initialGeneration is that of the first copy of a stream; later ones count on from the token.
const initialGeneration = 1

// keepsToken reports that a progress token is kept: by the sink, or in the row of our own.
func (s *session) keepsToken() bool {
	_, ours := s.owner.(*storeOwner)
	return ours || s.pipeline.handlers.progress != nil && s.caps.Set.Has(core.CapSnapshotProgress)
}

// begun is what is stored of a copy that was begun, for a start that has no position.
func (s *session) begun(ctx context.Context, stored core.Checkpoint) (checkpoint.Begun, error) {
	switch {
	case checkpoint.StateOf(stored) == checkpoint.At:
		return checkpoint.BegunNothing, nil
	case !s.keepsToken() && s.caps.Set.Has(core.CapSnapshot):
		return checkpoint.BegunUnknown, nil
	case !s.keepsToken():
		return checkpoint.BegunNothing, nil
	}
	state, err := s.progress(ctx)
	switch {
	case err != nil || state == nil:
		return checkpoint.BegunNothing, err
	case state.BeforeStream():
		return checkpoint.BegunInitial, nil
	case s.pipeline.options.Snapshot != checkpoint.SnapshotIncremental && state.Whole():
		return checkpoint.BegunNothing, nil
	}
	return checkpoint.BegunBeside, nil
}

// armInitial stores that a copy before the stream begins, ahead of its slot: without it a slot
// without a position would look the same after a copy that broke and after a start that made
// it to stream alone.
func (s *session) armInitial(ctx context.Context, claimed core.LSN, run [16]byte) error {
	if !s.keepsToken() {
		return nil
	}
	return s.storeArmed(ctx, claimed, &incremental.State{
		RunID: run, Generation: initialGeneration, Kind: incremental.KindBefore, Complete: true, Source: s.runSource(),
	})
}

// storeArmed stores the token of a run that is to begin, in a unit of its own.
func (s *session) storeArmed(ctx context.Context, claimed core.LSN, state *incremental.State) error {
	c, err := s.courier(ctx, claimed)
	if err != nil {
		return err
	}
	return c.progress(ctx, &core.SnapshotUnit{
		Expected: claimed, RunID: state.RunID, Generation: state.Generation, Token: state.Encode(),
	})
}
