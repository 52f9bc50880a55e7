package windows

import (
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

func init() { add(anyMajor, casesBase) }

// casesBase are the ends of a first start that copies nothing.
var casesBase = []window{
	{"U26", 1, "SC, P call.before=kill@1", exact, baseKilled(failpoint.CallBefore, false)},
	{"U26", 1, "SC, P store.before=kill@1, sidecar's store", exact, baseKilled(failpoint.StoreBefore, true)},
}

// baseKilled kills the sidecar when its slot is made and no position is stored. What is
// written until the next start is behind the slot.
func baseKilled(point failpoint.Point, lib bool) func(*scene) {
	return func(s *scene) {
		if lib {
			s.lib(1)
		}
		s.make()
		s.startSink("")
		s.killed(s.startSidecar(string(point)+"=kill@1"), point)
		require.NotEmpty(s.T, s.confirmed(), "there is no slot")
		require.Zero(s.T, s.position())
		s.write()
		s.startSidecar("")
		s.write()
		s.watch()
		s.judge(0, 0)
	}
}
