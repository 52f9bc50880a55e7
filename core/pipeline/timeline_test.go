package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// After a failover the stream goes on only where the slot was kept in step by Postgres,
// does not stand above the checkpoint, and the checkpoint is not above the place where the
// new timeline left the old one: what the new one wrote between there and the checkpoint
// would be skipped.
func TestFailoverGoesOnBelowTheForkAlone(t *testing.T) {
	for name, row := range map[string]struct {
		change func(s *waltest.State)
		goesOn bool
	}{
		"the fork above":          {func(s *waltest.State) { s.History = "1\t0/1000100\tno recovery target specified\n" }, true},
		"the fork there":          {func(s *waltest.State) { s.History = "1\t0/1000000\tno recovery target specified\n" }, true},
		"the fork below":          {func(s *waltest.State) { s.History = "1\t0/FFFFF8\tno recovery target specified\n" }, false},
		"the second fork":         {func(s *waltest.State) { s.Timeline, s.History = "3", "1\t0/1000100\tx\n2\t0/1000200\tx\n" }, true},
		"the first fork counts":   {func(s *waltest.State) { s.Timeline, s.History = "3", "1\t0/F00000\tx\n2\t0/1000200\tx\n" }, false},
		"a comment":               {func(s *waltest.State) { s.History = "# 1 0/1\n\n1\t0/1000100\tx\n" }, true},
		"no ancestor":             {func(s *waltest.State) { s.Timeline, s.History = "3", "2\t0/1000200\tx\n" }, false},
		"the slot above":          {func(s *waltest.State) { s.Slot.ConfirmedFlush = "0/1000010" }, false},
		"the slot not synced":     {func(s *waltest.State) { s.Slot.Synced = false }, false},
		"the history is no table": {func(s *waltest.State) { s.History = "one\n" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(p *play) {
				p.begin()
				stream := p.stream(base)
				p.pass(time.Second)
				p.server.Change(func(s *waltest.State) {
					s.Timeline, s.History = "2", "1\t0/1000100\tx\n"
					slot := *s.Slot
					slot.Synced = true
					s.Slot = &slot
					row.change(s)
				})
				stream.Cut()
				if row.goesOn {
					p.stream(base)
					p.pass(time.Second)
					require.Equal(p, pipeline.StateStreaming, p.run.Status().State)
					return
				}
				halt, ok := core.AsHalt(p.run.wait(p.T))
				require.True(p, ok)
				want := core.HaltTimelineChanged
				if name == "the history is no table" {
					want = core.HaltSourceRefused
				}
				require.Equal(p, want, halt.Code, halt.Error())
			})
		})
	}
}

// A standby that was started again takes connections before it has replayed what it had
// sent. It is waited for, without a claim; a primary whose WAL ends there has lost it.
func TestStandbyCatchesUp(t *testing.T) {
	inBubble(t, func(p *play) {
		p.server.Change(func(s *waltest.State) { s.InRecovery, s.WALEnd = true, "0/FFFFF0" })
		p.begin()
		p.pass(time.Minute)
		require.Equal(p, pipeline.StateSourceAway, p.run.Status().State)
		require.Contains(p, p.run.Status().Reason, "has replayed")
		require.EqualValues(p, 3, p.sink.Stored().Epoch, "nothing was claimed")
		p.server.Change(func(s *waltest.State) { s.WALEnd = "0/1000000" })
		p.stream(base)
		p.pass(time.Second)
		require.Equal(p, pipeline.StateStreaming, p.run.Status().State)
	})
	inBubble(t, func(p *play) {
		p.server.Change(func(s *waltest.State) { s.WALEnd = "0/FFFFF0" })
		p.begin()
		p.stream(base)
		halt, ok := core.AsHalt(p.run.wait(p.T))
		require.True(p, ok)
		require.Equal(p, core.HaltSourceBehind, halt.Code)
	})
}
