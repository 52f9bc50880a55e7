package pipeline

import (
	"context"
	"fmt"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// continues checks that the source is the same life of the cluster as the checkpoint's,
// and has come as far.
func (s *session) continues(ctx context.Context, read core.Checkpoint, slot wal.SlotState) error {
	p := s.pipeline
	if slot.Synced && s.recovery {
		return core.NewHalt(core.HaltSlotSynced, "connect", "the slot is a synced copy on a standby that was not promoted")
	}
	timeline, err := s.remembered(read)
	if err != nil {
		return err
	}
	s.judged = timeline
	if p.timeline != 0 {
		timeline = p.timeline
	}
	var fork core.LSN
	if timeline != 0 && s.source.Timeline > timeline && slot.Synced {
		if fork, err = asked(ctx, func(ctx context.Context) (core.LSN, error) {
			return s.conn.Fork(ctx, timeline, s.source.Timeline)
		}); err != nil {
			return err
		}
	}
	if err := judgeTimeline(timeline, s.source.Timeline, p.options.AcceptTimeline, slot, read.Position, fork); err != nil {
		return err
	}
	p.timeline = s.source.Timeline
	if !s.recovery {
		return nil
	}
	walEnd, err := asked(ctx, s.catalog.CurrentLSN)
	if err != nil {
		return err
	}
	return s.replayed(read.Position, walEnd)
}

// remembered is the timeline that the checkpoint was reached on, or that a start went on
// with from there; 0 where nobody knows. A row of ours names the one of the last claim,
// and nobody claims before the timeline was judged.
func (s *session) remembered(read core.Checkpoint) (uint32, error) {
	if timeline := s.owner.timeline(); timeline != 0 {
		return timeline, nil
	}
	state, err := readResumeState(read.ResumeState)
	return state.Timeline, err
}

// replayed lets a standby catch up: started again it takes connections before it has
// replayed all that it had sent. A primary has no such excuse, see checkpoint.Judge.
func (s *session) replayed(position, walEnd core.LSN) error {
	if !s.recovery || position <= walEnd {
		return nil
	}
	return &again{StateSourceAway, standbyInterval, fmt.Errorf("the standby has replayed up to %s, the checkpoint is %s", walEnd, position)}
}

// judgeTimeline decides about a source that runs on another timeline than the checkpoint
// was reached on; before is 0 when nobody remembers. Positions of two timelines mean the
// same rows only up to the fork, where the new one left the old one. A failover slot that
// Postgres itself kept in step proves that nothing between its position and ours is gone,
// and the fork that all of ours is on both timelines: without it, what the new one wrote
// between the fork and the checkpoint would be skipped.
func judgeTimeline(before, now, accepted uint32, slot wal.SlotState, position, fork core.LSN) error {
	switch {
	case before == 0 || before == now || accepted == now:
		return nil
	case now > before && slot.Synced && slot.Failover && slot.ConfirmedFlush <= position && position <= fork:
		return nil
	case slot.Synced && fork != 0 && position > fork:
		return core.NewHalt(core.HaltTimelineChanged, "connect", "timeline %d, which began at %s; the checkpoint %s was reached on %d", now, fork, position, before)
	}
	return core.NewHalt(core.HaltTimelineChanged, "connect", "timeline %d, the checkpoint was reached on %d", now, before)
}
