package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// What a stop leaves behind: in doubt it says so, and only then.
func TestStopTellsWhetherAUnitIsInDoubt(t *testing.T) {
	for name, row := range map[string]struct {
		answer core.SinkError
		open   bool
	}{
		"unknown":       {core.SinkError{Class: core.ClassUnknown}, true},
		"lost":          {core.SinkError{Class: core.ClassAway}, true},
		"never sent":    {core.SinkError{Class: core.ClassAway, NeverSent: true}, false},
		"not done":      {core.SinkError{Class: core.ClassBehind}, false},
		"answered then": {core.SinkError{}, false},
	} {
		for _, when := range []string{"waiting for the answer", "in the pause behind it"} {
			t.Run(name+", "+when, func(t *testing.T) {
				inBubble(t, func(p *play) {
					first := true
					p.sink.Before = func(core.Call, core.LSN) error {
						if !first {
							return nil
						}
						first = false
						time.Sleep(time.Second)
						if row.answer.Class == 0 {
							return nil
						}
						failed := row.answer
						failed.Call = "HandleBatch"
						return &failed
					}
					p.begin()
					stream := p.stream(base)
					p.transaction(stream, base+0x100)
					pause := time.Second / 2
					if when == "in the pause behind it" {
						pause = time.Second + time.Millisecond
					}
					p.pass(pause)
					p.run.Drain()
					p.pass(time.Minute)
					err := p.run.wait(p.T)
					if row.open {
						require.ErrorIs(p, err, pipeline.ErrLeftOpen)
						require.ErrorContains(p, err, (base + 0x130).String(), "it says which unit")
						require.Equal(p, core.ExitInternal, core.ExitCode(err))
						return
					}
					require.NoError(p, err)
				})
			})
		}
	}
}

// Once the next session knows, nothing is in doubt any more.
func TestResolvedDoubtIsForgotten(t *testing.T) {
	inBubble(t, func(p *play) {
		first := true
		p.sink.Before = func(core.Call, core.LSN) error {
			if first {
				first = false
				return &core.SinkError{Class: core.ClassUnknown, Call: "HandleBatch"}
			}
			return nil
		}
		p.begin()
		p.transaction(p.stream(base), base+0x100)
		p.pass(time.Second)
		p.stream(base)
		p.pass(time.Second)
		p.run.Drain()
		require.NoError(p, p.run.wait(p.T))
	})
}

func TestDrainThatIsNotAnsweredInTime(t *testing.T) {
	inBubble(t, func(p *play) {
		release := make(chan struct{})
		p.sink.Before = func(core.Call, core.LSN) error { <-release; return nil }
		p.begin()
		p.transaction(p.stream(base), base+0x100)
		p.pass(time.Second)
		p.run.Drain()
		p.pass(time.Hour)
		close(release)
		require.ErrorIs(p, p.run.wait(p.T), pipeline.ErrLeftOpen)
	})
}
