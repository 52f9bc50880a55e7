package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// broken fails at every unit that has a transaction, from the n-th of them on.
type broken struct {
	*sinktest.Memory
	from, calls int
}

func (b *broken) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	if b.calls++; b.calls >= b.from {
		return core.Ack{}, &core.SinkError{Class: core.ClassSuspicious, Call: "HandleTransaction", Code: "INTERNAL"}
	}
	return b.Memory.HandleTransaction(ctx, u)
}

// A unit is delivered three times, also when others were stored a moment before it.
func TestSuspiciousThriceAfterProgress(t *testing.T) {
	for from := 1; from <= 3; from++ {
		inBubble(t, func(p *play) {
			sink := &broken{Memory: p.sink.Memory, from: from}
			p.run = start(p.T, pipeline.Options{
				Source: wal.Options{DSN: waltest.DSN, Slot: "s", Publications: []string{"p"}, DialFunc: p.server.Dial, NoNap: true},
				Sink:   sink, GoForwardOnly: true, Delivery: pipeline.Delivery{Mode: pipeline.ModeTransaction},
			})
			at := base
			for n := range 3 {
				stream := p.stream(at)
				if n == 0 {
					for k := range core.LSN(from) {
						p.transaction(stream, base+k*0x100)
					}
					if from > 1 {
						at = base + core.LSN(from-2)*0x100 + 0x30
					}
				} else {
					p.transaction(stream, base+core.LSN(from-1)*0x100)
				}
			}
			halt, ok := core.AsHalt(p.run.wait(p.T))
			require.True(p, ok)
			require.Equal(p, core.HaltSinkFailed, halt.Code)
			require.Equal(p, from+2, sink.calls)
		})
	}
}
