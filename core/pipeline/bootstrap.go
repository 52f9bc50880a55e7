package pipeline

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// read asks the owner of the checkpoint where it stands, claiming nothing. Any failure
// stops the start: unknown is never empty.
func (s *session) read(ctx context.Context) (core.Checkpoint, error) {
	return s.askCheckpoint(ctx, nil)
}

func (s *session) askCheckpoint(ctx context.Context, claim *core.Claim) (core.Checkpoint, error) {
	p := s.pipeline
	ask, cancel := context.WithTimeout(ctx, p.doubt.deadline())
	defer cancel()
	stored, err := p.handlers.checkpoint.Checkpoint(ask, core.CheckpointRequest{
		StreamID: p.options.StreamID, Source: s.source, Claim: claim,
	})
	if err != nil {
		err = classify("Checkpoint", err)
		if failed, ok := err.(*core.SinkError); ok {
			return core.Checkpoint{}, startRefusal(failed)
		}
		return core.Checkpoint{}, err
	}
	return stored, p.sameLineage(stored.Lineage)
}

// sameLineage notices another store behind the address while running.
func (p *Pipeline) sameLineage(lineage []byte) error {
	if len(lineage) == 0 {
		return nil
	}
	if p.lineage != "" && p.lineage != string(lineage) {
		return core.NewHalt(core.HaltSinkReplaced, "Checkpoint", "the stream's row at the sink is not the one this run began with")
	}
	p.lineage = string(lineage)
	return nil
}

// claim takes the stream over under the next epoch. The slot or the bootstrap lock must
// be ours: a standby that claimed would stop a healthy owner. From here on the position
// is what the claim returned.
func (s *session) claim(ctx context.Context) (core.Checkpoint, error) {
	p := s.pipeline
	for range storedOnceInARow {
		stored, err := s.read(ctx)
		if err != nil {
			return stored, err
		}
		if !s.caps.Fences(core.FencingStored) {
			s.epoch = 0
			return stored, nil
		}
		epoch := stored.Epoch + 1
		claimed, err := s.askCheckpoint(ctx, &core.Claim{Epoch: epoch, SenderID: p.sender})
		if failed, ok := err.(*core.SinkError); ok && failed.Class == core.ClassFenced {
			continue // somebody claimed since the read; the slot is still ours
		}
		if err != nil {
			return claimed, err
		}
		if claimed.Epoch != epoch {
			return claimed, core.NewHalt(core.HaltSinkContract, "Checkpoint", "claimed epoch %d, the sink answered %d", epoch, claimed.Epoch)
		}
		s.epoch = epoch
		return claimed, nil
	}
	return core.Checkpoint{}, core.NewHalt(core.HaltFenced, "Checkpoint", "overtaken %d times while claiming", storedOnceInARow)
}

// bootstrap gives a stream its first position: under the bootstrap lock it reads and
// decides once more, claims, makes the slot where there is none, and stores the slot's
// position as an empty unit. Then the road begins from the top.
func (s *session) bootstrap(ctx context.Context) error {
	p := s.pipeline
	held, err := s.catalog.Lock(ctx, p.options.Source.Slot)
	if err != nil {
		return err
	}
	if !held {
		return &again{StateStandby, standbyInterval, standbyReason(0)}
	}
	defer func() { _ = s.catalog.Unlock(context.WithoutCancel(ctx)) }()
	stored, err := s.read(ctx)
	if err != nil {
		return err
	}
	slot, action, err := s.decide(ctx, stored)
	if err != nil {
		return err
	}
	if action != checkpoint.CreateSlot && action != checkpoint.StoreBase {
		return nil // somebody was faster: from the top
	}
	claimed, err := s.claim(ctx)
	if err != nil {
		return err
	}
	base := slot.ConfirmedFlush
	if action == checkpoint.CreateSlot {
		p.log.Info("creating the slot", "slot", p.options.Source.Slot)
		if base, err = s.conn.CreateSlot(ctx); err != nil {
			return err
		}
	}
	if err := s.offerOrigin(ctx, base, action == checkpoint.StoreBase); err != nil {
		return err
	}
	if err := s.storeBase(ctx, claimed.Position, base); err != nil {
		return err
	}
	p.adopted = true
	p.log.Info("base stored", "position", base.String())
	return nil
}

func (s *session) offerOrigin(ctx context.Context, origin core.LSN, reused bool) error {
	p := s.pipeline
	if !s.caps.Set.Has(core.CapSlotOrigin) {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := p.handlers.origin.HandleSlotOrigin(ask, core.SlotOrigin{
		StreamID: p.options.StreamID, Source: s.source, Origin: origin, Reused: reused,
	})
	return classify("HandleSlotOrigin", err)
}

// storeBase is an empty unit: nothing but a position.
func (s *session) storeBase(ctx context.Context, expected, base core.LSN) error {
	p := s.pipeline
	d := &deliverer{
		handlers: p.handlers, mode: s.mode, timeout: p.doubt.deadline, notReady: p.sinkNotReady, log: p.log,
		call: core.Call{
			StreamID: p.options.StreamID, Owner: core.OwnerSink, Epoch: s.epoch,
			SenderID: p.sender, Sequence: p.sequence, InstanceID: s.caps.InstanceID,
		},
	}
	ack, err := d.deliver(ctx, Work{Unit: &core.Unit{Expected: expected, Checkpoint: base}})
	p.sequence = d.call.Sequence
	if err != nil {
		return err
	}
	if ack.Checkpoint != base {
		return core.NewHalt(core.HaltSinkContract, "ack", "asked to store %s, the sink answered %s", base, ack.Checkpoint)
	}
	return nil
}
