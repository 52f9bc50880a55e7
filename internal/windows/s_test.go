package windows

import (
	"fmt"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

func init() { add(anyMajor, casesSink) }

// casesSink are the rows whose checkpoint is the sink's.
var casesSink = []window{
	{"S1", 1, "SK, P sink.call=kill@1", exact, sinkKilled(failpoint.SinkCall, 1)},
	{"S1", 1, "SK, P sink.call=kill@4", exact, sinkKilled(failpoint.SinkCall, 4)},
	{"S1", 1, "SK, P sink.begun=kill@1", exact, sinkKilled(failpoint.SinkBegun, 1)},
	{"S1", 1, "SK, P sink.begun=kill@5", exact, sinkKilled(failpoint.SinkBegun, 5)},
	{"S1", 2, "SK, P sink.row=kill@1", exact, sinkKilled(failpoint.SinkRow, 1)},
	{"S1", 2, "SK, P sink.row=kill@11", exact, sinkKilled(failpoint.SinkRow, 11)},
	{"S1", 3, "SK, P sink.checkpoint=kill@1", exact, sinkKilled(failpoint.SinkCheckpoint, 1)},
	{"S1", 3, "SK, P sink.checkpoint=kill@4", exact, sinkKilled(failpoint.SinkCheckpoint, 4)},
	{"S4", 1, "SK, P sink.committed=kill@1", exact, sinkKilled(failpoint.SinkCommitted, 1)},
	{"S4", 1, "SK, P sink.committed=kill@4", exact, sinkKilled(failpoint.SinkCommitted, 4)},
	{"S2", 0, "DB, X pwrite64 of COMMIT, the first", exact + " not visible", commitKilled(1, 1, "pwrite64", false)},
	{"S2", 0, "DB, X pwrite64 of COMMIT, the third", exact + " not visible", commitKilled(3, 1, "pwrite64", false)},
	{"S3", 0, "DB, X fdatasync of COMMIT, the first", exact + " visible", commitKilled(1, 2, "fdatasync", true)},
	{"S3", 0, "DB, X fdatasync of COMMIT, the third", exact + " visible", commitKilled(3, 2, "fdatasync", true)},
	{"S4", 2, "SK B sink.committed, T cut", exact, replyLost(1)},
	{"S4", 2, "SK B sink.committed, T cut, the third", exact, replyLost(3)},
	{"S5", 1, "SC, P call.after=kill@1", exact, sidecarKilled(failpoint.CallAfter, 1)},
	{"S5", 1, "SC, P call.after=kill@4", exact, sidecarKilled(failpoint.CallAfter, 4)},
	{"S5", 1, "SC, P status.before=kill@1", exact, sidecarKilled(failpoint.StatusBefore, 1)},
	{"S5", 1, "SC, P deliver.after=kill@1", exact, sidecarKilled(failpoint.DeliverAfter, 1)},
	{"S5", 1, "SC, P deliver.after=kill@4", exact, sidecarKilled(failpoint.DeliverAfter, 4)},
	{"S5", 1, "SC, P status.before=kill@2", exact, sidecarKilled(failpoint.StatusBefore, 2)},
	{"S6", 0, "SC, B sink.begun", exact, deliveredTwice(failpoint.SinkBegun, 2)},
	{"S6", 0, "SC, B sink.checkpoint", exact, deliveredTwice(failpoint.SinkCheckpoint, 1)},
	{"S6", 0, "SC, B sink.call", exact, deliveredTwice(failpoint.SinkCall, 1)},
	{"S7", 0, "SC, S SIGSTOP and B call.before@1", exact + " FENCE", frozenBefore(1)},
	{"S7", 0, "SC, S SIGSTOP and B call.before@3", exact + " FENCE", frozenBefore(3)},
	{"S8", 0, "DB, S SIGSTOP of the backend at COMMIT", exact, commitFrozen},
	{"S9", 0, "DB, X ENOSPC from a write on", exact + " nothing confirmed", sinkDiskFull},
	{"S9", 0, "DB, X ENOSPC in an initial copy", "the copy goes on, " + whole, copyDiskFull("initial")},
	{"S9", 0, "DB, X ENOSPC in a copy beside the stream", goesOn, copyDiskFull("incremental")},
	{"S10", 1, "SK, wrong_lsn@1", "HALT(sink_contract) twice, then " + exact, breach("wrong_lsn", 1, core.HaltSinkContract)},
	{"S10", 1, "SK, wrong_lsn@3", "HALT(sink_contract) twice, then " + exact, breach("wrong_lsn", 3, core.HaltSinkContract)},
	{"S10", 2, "SK, refuse@1", "HALT(sink_rejected) twice, then " + exact, breach("refuse", 1, core.HaltSinkRejected)},
	{"S10", 2, "SK, refuse@3", "HALT(sink_rejected) twice, then " + exact, breach("refuse", 3, core.HaltSinkRejected)},
	{"S10", 3, "SK, panic@1", "HALT(sink_failed) at the third, twice, then " + exact, breach("panic", 1, core.HaltSinkFailed)},
	{"S10", 3, "SK, panic@3", "HALT(sink_failed) at the third, twice, then " + exact, breach("panic", 3, core.HaltSinkFailed)},
	{"S11", 0, "DB, restored while down", "HALT(slot_ahead) twice", sinkRestored},
	{"S11", 0, "DB, restored while down, the slot not told", "LOSS DUP0", sinkRestoredUntold},
	{"S11", 0, "DB, restored between two calls", "CHECKPOINT_BEHIND, HALT(slot_ahead)", sinkSwapped("copy", core.HaltSlotAhead)},
	{"S11", 0, "DB, between two calls, the slot not told", "CHECKPOINT_BEHIND, LOSS DUP0", sinkSwappedUntold},
	{"S12", 1, "SC twice, B claim.before@1", exact + " one owner", twoClaims(1)},
	{"S12", 1, "SC twice, B claim.before@2", exact + " one owner", twoClaims(2)},
	{"S12", 2, "SC twice, B sink.claim@1", exact + " one owner", lateClaim(1)},
	{"S12", 2, "SC twice, B sink.claim@2", exact + " one owner", lateClaim(2)},
	{"S12", 3, "SC, P claim.after=error@1", exact, repeatedClaim(1)},
	{"S12", 3, "SC, P claim.after=error@2", exact, repeatedClaim(2)},
	{"S13", 0, "DB, Q an empty store", "CHECKPOINT_BEHIND, HALT(checkpoint_missing)", sinkSwapped("empty", core.HaltCheckpointMissing)},
	{"S13", 0, "DB, Q a copy from before the claim", "CHECKPOINT_BEHIND, HALT(slot_ahead)", sinkSwapped("before", core.HaltSlotAhead)},
	{"S13", 0, "DB, Q a copy from after the claim", "CHECKPOINT_BEHIND, HALT(slot_ahead)", sinkSwapped("copy", core.HaltSlotAhead)},
	{"S13", 0, "DB, Q a copy from after it, the slot not told", "CHECKPOINT_BEHIND, LOSS DUP0", sinkSwappedUntold},
	{"S14", 0, "SK, B sink.call@1", exact + " settles", zombieTail(1)},
	{"S14", 0, "SK, B sink.call@3", exact + " settles", zombieTail(3)},
}

// sinkKilled kills the sink at a passage, starts it again, and judges with no repeat.
func sinkKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.base()
		s.writeMany(8)
		sink := s.startSink(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.startSidecar("")
		s.killed(sink, point)
		s.write()
		s.startSink("")
		s.judge(0, 0)
	}
}

// sidecarKilled kills the sidecar at a passage. The first is just after a start with work
// waiting.
func sidecarKilled(point failpoint.Point, ordinal int) func(*scene) {
	return func(s *scene) {
		s.base()
		s.writeMany(8)
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.killed(sidecar, point)
		s.write()
		s.startSidecar("")
		s.judge(0, 0)
	}
}
