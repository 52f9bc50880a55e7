package pipeline

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// token is the stored progress; nil when none was ever stored. What cannot be read is a
// halt: it never means that a run starts over.
func (s *session) token(ctx context.Context) ([]byte, error) {
	p := s.pipeline
	if o, ours := s.owner.(*storeOwner); ours {
		r, _, err := o.store.Read(ctx, p.options.StreamID)
		if err = o.outage("read", err); err != nil {
			return nil, err
		}
		p.stored = r.Progress
		return r.Progress, nil
	}
	ask, cancel := context.WithTimeout(ctx, p.doubt.deadline())
	defer cancel()
	token, err := p.handlers.progress.SnapshotProgress(ask, core.SnapshotProgressRequest{StreamID: p.options.StreamID, Source: s.source})
	if err == nil {
		return token, nil
	}
	err = classify("SnapshotProgress", err)
	failed, ok := answer(err)
	if !ok || failed.Class != core.ClassRefused && failed.Class != core.ClassTooBig && failed.Class != core.ClassBehind {
		return nil, err
	}
	code := core.HaltProgressInvalid
	if failed.Reason == core.ReasonSourceMismatch {
		code = core.HaltSourceMismatch
	}
	return nil, &core.Halt{Code: code, Op: failed.Call, Detail: failed.Error(), Err: failed}
}

// progress is the stored token, read; nil when there is none.
func (s *session) progress(ctx context.Context) (*incremental.State, error) {
	token, err := s.token(ctx)
	if err != nil || token == nil {
		return nil, err
	}
	state, err := incremental.Decode(token)
	if err != nil {
		return nil, err
	}
	at := state.Source
	slot := at.Slot == s.source.Slot || state.BeforeStream() // a copy that begins anew makes its own
	if at.SystemIdentifier != s.source.SystemIdentifier || at.Database != s.source.Database || !slot {
		return nil, core.NewHalt(core.HaltProgressInvalid, "snapshot", "the progress token belongs to another source")
	}
	return state, nil
}

// arm stores that tables are to be copied, before the slot is made: no crash can leave a
// slot behind whose rows nobody thinks of.
func (s *session) arm(ctx context.Context, claimed core.LSN) error {
	p := s.pipeline
	if p.options.Snapshot != checkpoint.SnapshotIncremental {
		return nil
	}
	state, err := s.progress(ctx)
	switch {
	case err != nil:
		return err
	case state != nil && !state.Listed:
		return nil // by a start before this one
	case state != nil:
		return core.NewHalt(core.HaltProgressInvalid, "snapshot", "a copy has begun already, and the checkpoint is empty")
	}
	source := snapshot.Source{Open: wal.PlainOpener(p.options.Source), Classify: wal.ClassifyPlain}
	if err := source.Preflight(ctx, p.options.Source.Publications); err != nil {
		return err
	}
	state = &incremental.State{Generation: initialGeneration, Kind: incremental.KindInitial, Source: s.runSource()}
	_, _ = rand.Read(state.RunID[:]) // documented never to fail
	return s.storeArmed(ctx, claimed, state)
}

// leavesNoCopy refuses a session that would stream past a copy beside the stream that is not
// complete. A sink that keeps no token can have no such copy.
func (s *session) leavesNoCopy(ctx context.Context) error {
	if !s.keepsToken() {
		return nil
	}
	token, err := s.token(ctx)
	if err != nil || token == nil {
		return err
	}
	state, err := incremental.Decode(token)
	if err != nil || state.Whole() {
		return err
	}
	return checkpoint.CopyLeft()
}

// repairs reports that rows are read again that a second delivery may leave incomplete: with a
// checkpoint of our own, at a sink that mirrors rows and takes those of a snapshot.
func (s *session) repairs() bool {
	lib := s.mode == ModeLib || s.mode == ModeLibBatched
	return lib && s.caps.Kind == core.StateMirror && s.caps.Set.Has(core.CapSnapshot) && s.pipeline.handlers.snapshot != nil
}

func (s *session) runSource() incremental.Source {
	return incremental.Source{
		SystemIdentifier: s.source.SystemIdentifier, Timeline: s.source.Timeline,
		Database: s.source.Database, Slot: s.source.Slot,
	}
}

// beginRun goes on with the stored run; nil when there is none.
func (s *session) beginRun(ctx context.Context, claimed core.LSN) (*incremental.Run, error) {
	p := s.pipeline
	repairs := p.options.Snapshot != checkpoint.SnapshotIncremental
	if repairs && !s.repairs() {
		return nil, s.leavesNoCopy(ctx)
	}
	state, err := s.progress(ctx)
	switch {
	case err != nil:
		return nil, err
	case repairs && state != nil && !state.Whole() && !state.Repairing():
		return nil, checkpoint.CopyLeft()
	}
	switch {
	case state != nil && state.BeforeStream():
		state.Kind = incremental.KindRepair // the position says that it is complete
	case state == nil:
		if !repairs {
			p.log.Warn("this stream began without a snapshot: rows from before it are not copied, unless that is asked for")
		}
		// The tables count as copied; a token is stored when one is copied on request or added.
		state = &incremental.State{Generation: 1, Kind: incremental.KindRepair, Complete: true}
		_, _ = rand.Read(state.RunID[:]) // documented never to fail
	}
	state.Source = s.runSource()
	if state.Floor == 0 {
		state.Floor = claimed
	}
	limits := s.caps.Limits.Resolved()
	run := incremental.New(*state, incremental.Settings{
		ChunkRows: p.options.Copy.ChunkRows, ChunkBytes: min(limits.PreferredBytes, limits.RequestBytes/2),
		Standby: s.recovery, Forgets: p.forgets(), From: claimed,
		MaxHold: p.options.Copy.MaxHold, Repairs: repairs,
		Readers: p.options.Copy.Connections, Open: max(incremental.OpenDefault, 2*p.options.Copy.Connections),
	}, time.Now())
	if run.Active() {
		p.log.Info("incremental snapshot", "generation", state.Generation, "tables", len(state.Tables))
	}
	return run, nil
}
