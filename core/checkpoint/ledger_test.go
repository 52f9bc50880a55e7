package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func TestLedgerRefusesToStartFromNothing(t *testing.T) {
	_, err := NewLedger(0)
	requireHalt(t, err, core.HaltInvariant)
}

func TestLedgerOrder(t *testing.T) {
	l, err := NewLedger(10)
	require.NoError(t, err)
	require.True(t, l.Settled())
	require.NoError(t, l.Received(20))
	requireHalt(t, l.Received(20), core.HaltInvariant)
	requireHalt(t, l.Delivered(21), core.HaltInvariant)
	requireHalt(t, l.Durable(20), core.HaltInvariant)
	require.NoError(t, l.Delivered(20))
	require.Equal(t, core.LSN(10), l.Confirmable(), "delivered is not durable")
	requireHalt(t, l.Idle(30), core.HaltInvariant)
	require.NoError(t, l.Durable(20))
	require.Equal(t, core.LSN(20), l.Confirmable())
	requireHalt(t, l.Durable(19), core.HaltInvariant)
	requireHalt(t, l.Idle(20), core.HaltInvariant)
	require.NoError(t, l.Idle(30))
	require.Equal(t, core.LSN(20), l.Confirmable(), "an idle position is first stored")
}

// TestLedgerInvariants drives random calls; whatever is accepted, the order holds and
// nothing falls (I1 to I3).
func TestLedgerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := NewLedger(100)
		require.NoError(t, err)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			before := *l
			at := core.LSN(rapid.Uint64Range(90, 160).Draw(t, "at"))
			call := rapid.SampledFrom([]func(core.LSN) error{l.Received, l.Delivered, l.Durable, l.Idle}).Draw(t, "call")
			if call(at) != nil {
				require.Equal(t, before, *l, "a refused call changes nothing")
			}
			require.LessOrEqual(t, l.durable, l.delivered)
			require.LessOrEqual(t, l.delivered, l.received)
			require.GreaterOrEqual(t, l.received, before.received)
			require.GreaterOrEqual(t, l.delivered, before.delivered)
			require.GreaterOrEqual(t, l.durable, before.durable)
		}
	})
}
