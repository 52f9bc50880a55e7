package windows

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// again lets an owner that streams lose its connection so often that its next claim has
// this ordinal.
func (s *scene) again(c *sidecar, ordinal int) {
	s.Helper()
	for n := 1; n < ordinal; n++ {
		s.until("it streams", func() bool { return strings.Count(c.said(), `"msg":"streaming"`) == n })
		holder := s.holder()
		require.Equal(s.T, "true", s.ask(s.source.DSN, "SELECT pg_terminate_backend($1::text::int, 5000)::text", holder))
	}
}

// twoClaims: the first holds the slot and has not claimed when it is thrown off; the
// second claims; the first one's claim comes after.
func twoClaims(ordinal int) func(*scene) {
	return func(s *scene) {
		s.base()
		s.startSink("")
		gate := s.gate()
		first := s.startSidecar(fmt.Sprintf("claim.before=block:%s@%d", gate, ordinal))
		s.again(first, ordinal)
		s.witnessed(first, failpoint.ClaimBefore, "block")
		second := s.startSidecar("")
		s.thrownOff(second)
		s.write()
		s.arrived()
		s.release(gate)
		s.until("the first gives way", func() bool { return first.waits("standby") })
		s.write()
		s.judge(0, 0)
		require.Empty(s.T, first.halt())
		require.Empty(s.T, second.halt(), "the owner was stopped by one that had lost the slot")
		s.seen("first: standby, second: %s", second.fate())
	}
}

// lateClaim: a claim hangs in the sink while its sender dies and its successor claims.
func lateClaim(ordinal int) func(*scene) {
	return func(s *scene) {
		s.base()
		gate := s.gate()
		sink := s.startSink(fmt.Sprintf("sink.claim=block:%s@%d", gate, ordinal))
		first := s.startSidecar("")
		s.again(first, ordinal)
		s.witnessed(sink, failpoint.SinkClaim, "block")
		s.kill(first)
		second := s.startSidecar("")
		s.write()
		s.arrived()
		epoch := s.ask(s.sink.DSN, "SELECT epoch::text || sender::text FROM testsink.stream WHERE stream = $1", s.slot)
		s.release(gate)
		s.write()
		s.judge(0, 0)
		require.Equal(s.T, epoch, s.ask(s.sink.DSN, "SELECT epoch::text || sender::text FROM testsink.stream WHERE stream = $1", s.slot))
		require.Empty(s.T, second.halt())
		s.seen("the late claim had no effect")
	}
}

// repeatedClaim: the answer of a claim is lost, and the same sender claims again.
func repeatedClaim(ordinal int) func(*scene) {
	return func(s *scene) {
		s.base()
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("claim.after=error@%d", ordinal))
		s.again(sidecar, ordinal)
		s.witnessed(sidecar, failpoint.ClaimAfter, "error")
		s.write()
		s.judge(0, 0)
		require.Empty(s.T, sidecar.halt())
	}
}

// zombieTail makes the last transaction durable for an owner that was thrown off, after
// its successor has read the checkpoint and before it claims. The successor has nothing to
// deliver, and the slot settles all the same.
func zombieTail(ordinal int) func(*scene) {
	return func(s *scene) {
		s.base()
		gate, claim := s.gate(), s.gate()
		sink := s.startSink(fmt.Sprintf("sink.call=block:%s@%d", gate, ordinal))
		s.writeMany(ordinal) // before the start: an idle step would pass the point too
		first := s.startSidecar("")
		s.witnessed(sink, failpoint.SinkCall, "block")
		require.NoError(s.T, first.Signal(syscall.SIGSTOP))
		holder := s.holder()
		second := s.startSidecar("claim.before=block:" + claim)
		s.ask(s.source.DSN, "SELECT pg_terminate_backend($1::text::int)::text", holder)
		s.witnessed(second, failpoint.ClaimBefore, "block")
		s.release(gate)
		s.arrived()
		s.release(claim)
		s.until("the second streams", func() bool { return second.streams() })
		s.until("the slot settles", func() bool { return s.toldAll() })
		s.seen("settled at %s", s.confirmed())
		s.kill(first)
		s.judge(0, 0)
	}
}
