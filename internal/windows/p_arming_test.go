package windows

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// armingKilled kills the sidecar at the token that goes ahead of the slot: the next start
// copies without being told to.
func armingKilled(point failpoint.Point, lib bool) func(*scene) {
	return func(s *scene) {
		if lib {
			s.lib(1)
		}
		s.copies()
		s.startSink("")
		s.killed(s.startSidecar(fmt.Sprintf("%s=kill@1", point)), point)
		require.Empty(s.T, s.ask(s.source.DSN, "SELECT coalesce(min(slot_name::text), '') FROM pg_replication_slots WHERE slot_name = $1", s.slot))
		s.write()
		s.startSidecar("")
		s.write()
		s.copied()
	}
}

// armingSinkKilled kills the sink behind the committed token.
func armingSinkKilled(s *scene) {
	s.copies()
	sink := s.startSink("sink.committed=kill@1")
	s.startSidecar("")
	s.killed(sink, failpoint.SinkCommitted)
	s.write()
	s.startSink("")
	s.write()
	s.copied()
}
