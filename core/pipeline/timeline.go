package pipeline

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// judgeTimeline decides about a source that runs on another timeline than the checkpoint
// was reached on; before is 0 when nobody remembers. Positions of two timelines mean the
// same rows only up to the fork, and only a failover slot that Postgres itself kept in
// step proves that ours is below it.
func judgeTimeline(before, now, accepted uint32, slot wal.SlotState, position core.LSN) error {
	switch {
	case before == 0 || before == now || accepted == now:
		return nil
	case now > before && slot.Synced && slot.Failover && slot.ConfirmedFlush <= position:
		return nil
	}
	return core.NewHalt(core.HaltTimelineChanged, "connect", "timeline %d, the checkpoint was reached on %d", now, before)
}
