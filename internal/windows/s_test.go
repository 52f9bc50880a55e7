package windows

import (
	"fmt"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// casesSink are the rows whose checkpoint is the sink's.
var casesSink = []window{
	{"S1", 1, "SK, P sink.call=kill@1", exact, sinkKilled(failpoint.SinkCall, 1)},
	{"S1", 1, "SK, P sink.call=kill@4", exact, sinkKilled(failpoint.SinkCall, 4)},
	{"S1", 1, "SK, P sink.begun=kill@5", exact, sinkKilled(failpoint.SinkBegun, 5)},
	{"S1", 2, "SK, P sink.row=kill@1", exact, sinkKilled(failpoint.SinkRow, 1)},
	{"S1", 2, "SK, P sink.row=kill@11", exact, sinkKilled(failpoint.SinkRow, 11)},
	{"S1", 3, "SK, P sink.checkpoint=kill@1", exact, sinkKilled(failpoint.SinkCheckpoint, 1)},
	{"S1", 3, "SK, P sink.checkpoint=kill@4", exact, sinkKilled(failpoint.SinkCheckpoint, 4)},
	{"S4", 1, "SK, P sink.committed=kill@1", exact, sinkKilled(failpoint.SinkCommitted, 1)},
	{"S4", 1, "SK, P sink.committed=kill@4", exact, sinkKilled(failpoint.SinkCommitted, 4)},
	{"S5", 1, "SC, P call.after=kill@1", exact, sidecarKilled(failpoint.CallAfter, 1)},
	{"S5", 1, "SC, P deliver.after=kill@1", exact, sidecarKilled(failpoint.DeliverAfter, 1)},
	{"S5", 1, "SC, P deliver.after=kill@4", exact, sidecarKilled(failpoint.DeliverAfter, 4)},
	{"S5", 1, "SC, P status.before=kill@2", exact, sidecarKilled(failpoint.StatusBefore, 2)},
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
