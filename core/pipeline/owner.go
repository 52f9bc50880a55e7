package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// owner is who keeps the checkpoint of the stream: the sink, or a store of ours.
type owner interface {
	// read asks without claiming. Any failure stops the start: unknown is never empty.
	read(ctx context.Context, source core.SourceIdentity) (core.Checkpoint, error)
	// claim takes the stream over under read's epoch + 1. errOvertaken says that
	// somebody else claimed since the read.
	claim(ctx context.Context, source core.SourceIdentity, read core.Checkpoint) (core.Checkpoint, error)
	// timeline is the one that the owner itself noted at the last claim before the last
	// read; 0 when it notes none, or there was no claim.
	timeline() uint32
	// fences reports whether claims raise an epoch.
	fences() bool
}

var errOvertaken = errors.New("overtaken while claiming")

// sinkOwner is a sink that stores rows and checkpoint together.
type sinkOwner struct {
	pipeline *Pipeline
	caps     core.Capabilities
}

func (o *sinkOwner) fences() bool { return o.caps.Fences(core.FencingStored) }

func (o *sinkOwner) timeline() uint32 { return 0 }

func (o *sinkOwner) read(ctx context.Context, source core.SourceIdentity) (core.Checkpoint, error) {
	return o.ask(ctx, source, nil)
}

func (o *sinkOwner) claim(ctx context.Context, source core.SourceIdentity, read core.Checkpoint) (core.Checkpoint, error) {
	claim := &core.Claim{Epoch: read.Epoch + 1, SenderID: o.pipeline.sender}
	stored, err := o.ask(ctx, source, claim)
	var failed *core.SinkError
	switch {
	case errors.As(err, &failed) && failed.Class == core.ClassFenced:
		return stored, errOvertaken
	case err == nil && stored.Epoch != claim.Epoch:
		return stored, core.NewHalt(core.HaltSinkContract, "Checkpoint", "claimed epoch %d, the sink answered %d", claim.Epoch, stored.Epoch)
	}
	return stored, err
}

func (o *sinkOwner) ask(ctx context.Context, source core.SourceIdentity, claim *core.Claim) (core.Checkpoint, error) {
	p := o.pipeline
	ask, cancel := context.WithTimeout(ctx, p.doubt.deadline())
	defer cancel()
	stored, err := p.handlers.checkpoint.Checkpoint(ask, core.CheckpointRequest{
		StreamID: p.options.StreamID, Source: source, Claim: claim,
	})
	if err == nil {
		p.doubt.authorized("Checkpoint")
		return stored, p.sameLineage(stored.Lineage, core.HaltSinkReplaced)
	}
	err = classify("Checkpoint", err)
	var failed *core.SinkError
	if errors.As(err, &failed) {
		return core.Checkpoint{}, startRefusal(failed)
	}
	return core.Checkpoint{}, err
}

// sameLineage notices another row behind the address while running.
func (p *Pipeline) sameLineage(lineage []byte, code core.HaltCode) error {
	if len(lineage) == 0 {
		return nil
	}
	if p.lineage != "" && p.lineage != string(lineage) {
		return core.NewHalt(code, "Checkpoint", "the stream's row is not the one this run began with")
	}
	p.lineage = string(lineage)
	return nil
}

// storeOwner is the sidecar's own store.
type storeOwner struct {
	pipeline *Pipeline
	store    checkpoint.Store
	sinkName string
	claimed  uint32 // timeline of the row that was read
}

func (o *storeOwner) fences() bool { return true }

func (o *storeOwner) timeline() uint32 { return o.claimed }

func (o *storeOwner) read(ctx context.Context, source core.SourceIdentity) (core.Checkpoint, error) {
	p := o.pipeline
	r, found, err := o.store.Read(ctx, p.options.StreamID)
	if err = o.outage("read", err); err != nil {
		return core.Checkpoint{}, err
	}
	if !found {
		if p.lineage != "" {
			return core.Checkpoint{}, core.NewHalt(core.HaltStoreRegress, "store", "the checkpoint row of this run is gone")
		}
		return core.Checkpoint{}, nil
	}
	if err := checkpoint.SameSource(r.Source, source); err != nil {
		return core.Checkpoint{}, err
	}
	o.claimed = r.Source.Timeline
	if r.SinkName != o.sinkName && !p.renamed {
		p.renamed = true
		p.log.Warn("the stored position was reached with a sink of another name: it does not have what came before",
			"stored", r.SinkName, "sink", o.sinkName)
	}
	return stored(r), p.sameLineage(r.Lineage[:], core.HaltStoreRegress)
}

func (o *storeOwner) claim(ctx context.Context, source core.SourceIdentity, read core.Checkpoint) (core.Checkpoint, error) {
	r, err := o.store.Claim(ctx, checkpoint.Claiming{
		StreamID: o.pipeline.options.StreamID, Read: read.Epoch, Sender: o.pipeline.sender,
		Source: source, SinkName: o.sinkName,
	})
	if errors.Is(err, checkpoint.ErrOvertaken) {
		return core.Checkpoint{}, errOvertaken
	}
	if err = o.outage("claim", err); err != nil {
		return core.Checkpoint{}, err
	}
	return stored(r), o.pipeline.sameLineage(r.Lineage[:], core.HaltStoreRegress)
}

// outage bounds how long an unavailable store is waited for. Reading and writing are
// counted apart: a store whose disk is full can be read, and must not look well for that.
func (o *storeOwner) outage(op string, err error) error {
	p := o.pipeline
	var away *checkpoint.UnavailableError
	if !errors.As(err, &away) {
		if err == nil {
			delete(p.storeAway, op)
		}
		return err
	}
	since, waiting := p.storeAway[op]
	if !waiting {
		since = time.Now()
		p.storeAway[op] = since
	}
	if time.Since(since) >= p.options.StoreWait {
		return unavailable(away)
	}
	return &again{StateStoreAway, 0, away}
}

func unavailable(away *checkpoint.UnavailableError) error {
	return &core.Halt{Code: core.HaltStoreUnavailable, Op: away.Op, Detail: away.Reason, Err: away}
}

func stored(r checkpoint.Record) core.Checkpoint {
	return core.Checkpoint{Position: r.Position, Epoch: r.Epoch, Lineage: r.Lineage[:], ResumeState: r.ResumeState}
}
