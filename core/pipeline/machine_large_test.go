package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
)

func TestMachineLargeTransaction(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Limits.RequestBytes, s.Limits.PreferredBytes = 8000, 4000 })
	r.transaction(110, 120, "small one before")
	r.begin(200)
	rows := 0
	for r.m.WantsInput() {
		r.insert("1", strings.Repeat("x", 500))
		rows++
		require.Less(t, rows, 100, "memory is not bounded")
	}
	u := r.next()
	require.Equal(t, []core.LSN{120}, ends(u), "what came before is durable first")
	_, ok := r.m.Part()
	require.False(t, ok)
	r.ack(u)
	w, ok := r.m.Next()
	require.True(t, ok)
	require.NotNil(t, w.Large)
	require.Equal(t, core.LSN(120), w.Large.Expected)
	require.Equal(t, core.LSN(200), w.Large.CommitLSN)

	got, committed := 0, false
	take := func() {
		frame, ok := r.m.Part()
		require.True(t, ok)
		if frame.Commit != nil {
			committed = true
			require.EqualValues(t, rows, frame.Commit.ChangeCount)
			require.Equal(t, core.LSN(230), frame.Commit.EndLSN)
			require.Equal(t, core.LSN(230), frame.Commit.Checkpoint)
		} else {
			require.EqualValues(t, got, frame.FirstChangeIndex)
			for i := range frame.Changes {
				require.Len(t, frame.Changes[i].New.Value(1).Text, 500)
			}
			got += len(frame.Changes)
		}
		require.NoError(t, r.m.PartTaken())
	}
	for rows < 100 {
		for r.m.WantsInput() && rows < 100 {
			r.insert("1", strings.Repeat("x", 500))
			rows++
		}
		if _, ok := r.m.Part(); ok {
			take()
		}
	}
	require.True(t, r.m.Unfinished())
	r.commit(200, 230)
	require.False(t, r.m.Unfinished())
	for !committed {
		take()
	}
	require.Equal(t, rows, got)
	require.Equal(t, core.LSN(120), r.m.Confirmable())
	require.NoError(t, r.m.Acked(core.Ack{Checkpoint: 230}))
	require.Equal(t, core.LSN(230), r.m.Confirmable())
}

func TestMachineOKBeforeTheCommitFrameIsABreach(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Limits.RequestBytes, s.Limits.PreferredBytes = 8000, 4000 })
	r.begin(200)
	for r.m.WantsInput() {
		r.insert("1", strings.Repeat("x", 500))
	}
	w, ok := r.m.Next()
	require.True(t, ok)
	require.NotNil(t, w.Large)
	require.Equal(t, core.HaltSinkContract, haltCode(t, r.m.Acked(core.Ack{Checkpoint: 230})))
}

func TestMachineLimitsThatHalt(t *testing.T) {
	t.Run("no large transactions", func(t *testing.T) {
		r := newRig(t, func(s *Settings) { s.Large, s.Limits.RequestBytes, s.Limits.PreferredBytes = false, 8000, 4000 })
		r.begin(200)
		for r.m.WantsInput() {
			r.insert("1", strings.Repeat("x", 500))
		}
		require.Equal(t, core.HaltTransactionTooLarge, haltCode(t, r.m.Halted()))
	})
	t.Run("one row", func(t *testing.T) {
		r := newRig(t, func(s *Settings) { s.Limits.RequestBytes, s.Limits.PreferredBytes = 8000, 4000 })
		r.begin(200)
		r.insert("secret-key", strings.Repeat("y", 9000))
		err := r.m.Halted()
		require.Equal(t, core.HaltValueTooLarge, haltCode(t, err))
		require.Contains(t, err.Error(), "public.t")
		require.NotContains(t, err.Error(), "secret")
	})
}

func TestMachineTooBig(t *testing.T) {
	r := newRig(t, nil)
	r.transaction(110, 120, "a")
	r.transaction(130, 140, "b")
	r.transaction(150, 160, "c")
	require.Len(t, r.next().Transactions, 3)
	require.NoError(t, r.m.TooBig())
	first := r.next()
	require.Equal(t, []core.LSN{120}, ends(first))
	r.ack(first)
	second := r.next()
	require.Equal(t, []core.LSN{140, 160}, ends(second))
	require.Equal(t, core.LSN(120), second.Expected)
	require.NoError(t, r.m.TooBig())
	r.ack(r.next())
	require.Equal(t, []core.LSN{160}, ends(r.next()))
	require.NoError(t, r.m.TooBig(), "one transaction alone goes through the large path")
	w, ok := r.m.Next()
	require.True(t, ok)
	require.NotNil(t, w.Large)
	for range 2 {
		require.NoError(t, r.m.PartTaken())
	}
	require.NoError(t, r.m.Acked(core.Ack{Checkpoint: 160}))
	require.Equal(t, core.LSN(160), r.m.Confirmable())

	r = newRig(t, func(s *Settings) { s.Large = false })
	r.transaction(110, 120, "a")
	r.next()
	require.Equal(t, core.HaltTransactionTooLarge, haltCode(t, r.m.TooBig()))
}

func TestMachineNeedsAPosition(t *testing.T) {
	_, err := NewMachine(Settings{}, assembler.New(assembler.Options{}), time.Now())
	require.Equal(t, core.HaltInvariant, haltCode(t, err))
}
