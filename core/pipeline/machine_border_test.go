package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

func (r *rig) message(end core.LSN) {
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindMessage, LSN: end, Message: &pgoutput.LogicalMessage{
		Prefix: []byte("p"), Content: []byte("c"),
	}})
}

func TestMachineIdleStepWaitsForAnOpenBatch(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Delivery.MaxDelay = time.Second })
	r.transaction(110, 120, "a")
	r.m.Keepalive(500, true)
	r.nothing() // the batch may still grow, and 500 lies behind it
	r.later(time.Second)
	u := r.next()
	require.Equal(t, core.LSN(120), u.Checkpoint)
	r.ack(u)
	require.Equal(t, core.LSN(500), r.next().Checkpoint)
}

// What a keepalive says in the middle of a transaction says nothing, afterwards neither.
func TestMachineKeepaliveInsideATransactionIsForgotten(t *testing.T) {
	r := newRig(t, nil)
	r.begin(510)
	r.insert("1", "a")
	r.m.Keepalive(900, true)
	r.commit(510, 520)
	r.ack(r.next())
	r.later(time.Hour)
	r.nothing()
	require.Equal(t, core.LSN(520), r.m.Confirmable())
}

func TestMachineMessageFollowsWhatCameBefore(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Messages, s.Delivery.MaxDelay = true, time.Second })
	r.transaction(110, 120, "a")
	r.message(140)
	u := r.next()
	require.Equal(t, []core.LSN{120}, ends(u), "the open batch goes first")
	r.nothing()
	r.ack(u)
	require.Equal(t, core.LSN(120), r.m.Confirmable())
	w, ok := r.m.Next()
	require.True(t, ok)
	require.NotNil(t, w.Message)
	require.Equal(t, core.LSN(120), w.Message.Expected)
	require.Equal(t, core.LSN(140), w.Message.Checkpoint)
	require.Equal(t, core.LSN(120), r.m.Confirmable(), "a message that was sent is not durable")
	require.NoError(t, r.m.Acked(core.Ack{Checkpoint: 140}))
	require.Equal(t, core.LSN(140), r.m.Confirmable())

	r.transaction(140, 160, "starts at the end of the message")
	r.later(time.Second)
	require.Equal(t, []core.LSN{160}, ends(r.next()))
}

func TestMachineMessageThatTheCheckpointCoversIsDropped(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Messages = true })
	r.message(100)
	r.nothing()
	require.EqualValues(t, 1, r.m.Count().Skipped)
	r.message(101)
	w, ok := r.m.Next()
	require.True(t, ok)
	require.Equal(t, core.LSN(101), w.Message.Checkpoint)
}

// I8: a halt leaves what is ready unsent, however long it is asked.
func TestMachineNothingLeavesAfterAHalt(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Large = false })
	r.transaction(110, 120, "a")
	r.next()
	r.transaction(130, 140, "b")
	r.m.Keepalive(500, true)
	require.Equal(t, core.HaltTransactionTooLarge, haltCode(t, r.m.TooBig()))
	r.later(time.Hour)
	r.nothing()
	require.False(t, r.m.WantsInput())
	require.Zero(t, r.m.Deadline())
	require.Equal(t, core.LSN(100), r.m.Confirmable())
}

// Nor does what it says between the blocks' begin and end of a transaction in progress.
func TestMachineKeepaliveInsideABlockIsForgotten(t *testing.T) {
	r := newRig(t, nil)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStart, XID: 7, First: true})
	r.m.Keepalive(900, true)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStop})
	r.later(time.Hour)
	r.nothing()
	require.NoError(t, r.m.Halted())
	r.m.Keepalive(910, true)
	require.Equal(t, core.LSN(910), r.next().Checkpoint, "a transaction in progress ends above it")
}
