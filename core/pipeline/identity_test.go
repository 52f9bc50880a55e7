package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// Behind an address there may be something else after a reconnect: another store, another
// cluster, another life of it. Nothing is sent to it or taken from it.
func TestWhatIsBehindAnAddressStaysTheSame(t *testing.T) {
	for name, row := range map[string]struct {
		swap func(p *play)
		want core.HaltCode
	}{
		"store": {func(p *play) {
			p.sink.SetStored(core.Checkpoint{Position: base, Epoch: 4, Lineage: []byte("another")})
		}, core.HaltSinkReplaced},
		"sink":     {func(p *play) { p.sink.Caps.Name = "another" }, core.HaltCapabilityLost},
		"cluster":  {func(p *play) { p.server.Change(func(s *waltest.State) { s.SystemID = "7000000000000000002" }) }, core.HaltSourceMismatch},
		"database": {func(p *play) { p.server.Change(func(s *waltest.State) { s.Database = "another" }) }, core.HaltSourceMismatch},
		"timeline": {func(p *play) { p.server.Change(func(s *waltest.State) { s.Timeline = "2" }) }, core.HaltTimelineChanged},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(p *play) {
				p.sink.SetStored(core.Checkpoint{Position: base, Epoch: 3, Lineage: []byte("one")})
				p.begin()
				stream := p.stream(base)
				p.pass(time.Second)
				require.Equal(p, pipeline.StateStreaming, p.run.Status().State)
				row.swap(p)
				stream.Cut()
				halt, ok := core.AsHalt(p.run.wait(p.T))
				require.True(p, ok)
				require.Equal(p, row.want, halt.Code, halt.Error())
				require.Empty(p, p.ends())
			})
		})
	}
}
