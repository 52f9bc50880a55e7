package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// claim takes the stream over under the next epoch. The slot or the bootstrap lock must
// be ours: a standby that claimed would stop a healthy owner. From here on the position
// is what the claim returned.
func (s *session) claim(ctx context.Context) (core.Checkpoint, error) {
	for range claimsMax {
		read, err := s.owner.read(ctx, s.source)
		if err != nil {
			return read, err
		}
		if timeline, err := s.remembered(read); err != nil {
			return read, err
		} else if s.judged != 0 && timeline != s.judged {
			return read, &again{StateStarting, reconnectMin, errOtherTimeline}
		}
		if !s.owner.fences() {
			s.epoch = 0
			return read, nil
		}
		if err := failpoint.Hit(failpoint.ClaimBefore); err != nil {
			return read, injected(err)
		}
		claimed, err := s.owner.claim(ctx, s.source, read)
		if errors.Is(err, errOvertaken) {
			if err := s.stillOurs(ctx); err != nil {
				return core.Checkpoint{}, err
			}
			continue // somebody claimed since the read, and has lost the slot to us
		}
		s.epoch = claimed.Epoch
		if err == nil {
			err = injected(failpoint.Hit(failpoint.ClaimAfter))
		}
		return claimed, err
	}
	return core.Checkpoint{}, core.NewHalt(core.HaltFenced, "claim", "overtaken %d times while claiming", claimsMax)
}

// stillOurs is asked before a claim is made again: whoever was overtaken because the
// server had ended its walsender must not stop the slot's new owner. Where the connection
// is gone that held the bootstrap lock, the question fails.
func (s *session) stillOurs(ctx context.Context) error {
	slot, err := asked(ctx, s.slot)
	if err == nil && slot.Active && slot.ActivePID != s.conn.PID() {
		return &again{StateStandby, standbyInterval, slot.Busy()}
	}
	return err
}

// locked reads the checkpoint and decides under the bootstrap lock, and runs f on what it
// found before it lets the lock go. Who holds the lock meanwhile makes us a standby.
func (s *session) locked(ctx context.Context, f func(wal.SlotState, checkpoint.Action) error) error {
	held, err := asked(ctx, func(ctx context.Context) (bool, error) {
		return s.catalog.Lock(ctx, s.pipeline.options.Source.Slot)
	})
	if err != nil {
		return err
	}
	if !held {
		return &again{StateStandby, standbyInterval, errPreparing}
	}
	defer unlock(ctx, s.catalog.Unlock)
	stored, err := s.owner.read(ctx, s.source)
	if err != nil {
		return err
	}
	slot, action, err := s.decide(ctx, stored)
	if err != nil {
		return err
	}
	return f(slot, action)
}

// sure looks again under the bootstrap lock before a start halts: between the creation
// of a slot and its first stored position, slot and checkpoint contradict each other for
// anybody who looks from outside.
func (s *session) sure(ctx context.Context, doubtful error) error {
	return s.locked(ctx, func(wal.SlotState, checkpoint.Action) error {
		return &again{StateStarting, reconnectMin, doubtful}
	})
}

// bootstrap gives a stream its first position. Then the road begins from the top.
func (s *session) bootstrap(ctx context.Context) error {
	return s.locked(ctx, func(slot wal.SlotState, action checkpoint.Action) error {
		switch action {
		case checkpoint.CopyInitial:
			return s.copyInitial(ctx)
		case checkpoint.DropLeftover:
			return s.dropLeftover(ctx, slot)
		}
		return s.base(ctx, slot, action)
	})
}

// base claims, makes the slot where there is none, and stores the slot's position as an
// empty unit.
func (s *session) base(ctx context.Context, slot wal.SlotState, action checkpoint.Action) error {
	p := s.pipeline
	if action != checkpoint.CreateSlot && action != checkpoint.StoreBase {
		return nil // somebody was faster: from the top
	}
	if p.adopted {
		return core.NewHalt(core.HaltSinkContract, "Checkpoint", "a first position was stored in this run, and none is told")
	}
	claimed, err := s.claim(ctx)
	if err != nil {
		return err
	}
	if err := s.arm(ctx, claimed.Position); err != nil {
		return err
	}
	base := slot.ConfirmedFlush
	if action == checkpoint.CreateSlot {
		p.log.Info("creating the slot", "slot", p.options.Source.Slot)
		if base, err = s.conn.CreateSlot(ctx); err != nil {
			return s.notMade(ctx, err)
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

// notMade says what stands in the way of a new slot, as far as the catalog knows.
func (s *session) notMade(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if errors.Is(why, wal.ErrSlotWaits) {
		blocked := &again{StateStarting, 0, why}
		if pid, since, err := s.catalog.OldestWriter(ctx); err == nil && pid != 0 {
			blocked.err = fmt.Errorf("%w: process %d of the server has a transaction open since %s", why, pid, since)
		}
		return blocked
	}
	if halt, ok := core.AsHalt(why); ok && halt.Code == core.HaltSlotsExhausted {
		if names, err := s.catalog.SlotNames(ctx); err == nil && names != "" {
			halt.Detail += "; the server's slots: " + names
		}
	}
	return why
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

// storeBase is an empty unit: nothing but a position, and the timeline that it is of.
func (s *session) storeBase(ctx context.Context, expected, base core.LSN) error {
	c, err := s.courier(ctx, expected)
	if err != nil {
		return err
	}
	known := newShapes(s.keepsShapes(), resumeState{}, s.source.Timeline)
	ack, err := c.unit(ctx, &core.Unit{Expected: expected, Checkpoint: base, ResumeState: known.take()}, nil)
	if err != nil {
		return err
	}
	if ack.Checkpoint != base {
		return core.NewHalt(core.HaltSinkContract, "ack", "asked to store %s, the sink answered %s", base, ack.Checkpoint)
	}
	return nil
}
