package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// remembering is a play whose sink keeps resume states, and has one of the first timeline.
func remembering(t *testing.T, script func(p *play)) {
	t.Helper()
	inBubble(t, func(p *play) {
		p.sink.Caps.Set |= core.NewCapabilitySet(core.CapResumeState)
		p.sink.SetStored(core.Checkpoint{Position: base, Epoch: 3, ResumeState: []byte(`{"v":1,"timeline":1,"relations":[]}`)})
		script(p)
	})
}

func (p *play) startWith(change func(o *pipeline.Options)) {
	o := pipeline.Options{
		Source: wal.Options{DSN: waltest.DSN, Slot: "s", Publications: []string{"p"}, DialFunc: p.server.Dial, NoNap: true},
		Sink:   p.sink, GoForwardOnly: true,
	}
	if change != nil {
		change(&o)
	}
	p.run = start(p.T, o)
}

// idles streams from a position, moves on by one idle step, and stops in good order.
func (p *play) idles(from, to core.LSN) {
	p.Helper()
	stream := p.stream(from)
	require.NoError(p, stream.Keepalive(uint64(to), true))
	p.pass(time.Second)
	require.Equal(p, to, p.run.Status().Confirmed)
	p.stops()
	p.at(to)
}

func (p *play) stops() {
	p.Helper()
	p.run.Drain()
	require.NoError(p, p.run.wait(p.T))
}

// at moves the slot.
func (p *play) at(flush core.LSN) {
	p.server.Change(func(s *waltest.State) {
		slot := *s.Slot
		slot.ConfirmedFlush = flush.String()
		s.Slot = &slot
	})
}

// promoted puts the source on its second timeline.
func (p *play) promoted(fork string, synced bool) {
	p.server.Change(func(s *waltest.State) {
		s.Timeline, s.History = "2", "1\t"+fork+"\tx\n"
		slot := *s.Slot
		slot.Synced = synced
		s.Slot = &slot
	})
}

func (p *play) haltsOnTimeline() {
	p.Helper()
	halt, ok := core.AsHalt(p.run.wait(p.T))
	require.True(p, ok)
	require.Equal(p, core.HaltTimelineChanged, halt.Code, halt.Error())
}

// After a failover that the stream went on over, idle steps alone may pass the fork: the
// next start knows that they were made on the new timeline.
func TestIdleStepsBehindAFailover(t *testing.T) {
	remembering(t, func(p *play) {
		p.startWith(nil)
		p.idles(base, base+0x10)
		p.promoted("0/1000100", true)
		p.startWith(nil)
		p.idles(base+0x10, base+0x500)
		p.startWith(nil)
		p.stream(base + 0x500)
	})
}

// A timeline is accepted once.
func TestAcceptedTimelineIsKept(t *testing.T) {
	accept := func(o *pipeline.Options) { o.AcceptTimeline = 2 }
	remembering(t, func(p *play) {
		p.startWith(nil)
		p.idles(base, base+0x10)
		p.promoted("0/F00000", false)
		p.startWith(nil)
		p.haltsOnTimeline()
		p.startWith(accept)
		p.idles(base+0x10, base+0x20)
		p.startWith(nil)
		p.stream(base + 0x20)
	})
	rowOnTimelineOne(t, func(s *shelf) {
		epoch := s.row().Epoch
		for range 2 {
			s.startLib(nil)
			s.haltsOnTimeline()
			require.Equal(s, epoch, s.row().Epoch, "a claim would overwrite what the halt is about")
			require.EqualValues(s, 1, s.row().Source.Timeline)
		}
		s.startLib(accept)
		s.stream(base)
		s.stops()
		s.startLib(nil) // nothing at all was sent
		s.stream(base)
	})
}

// The first position is of a timeline too, though it comes without a row.
func TestFirstPositionIsOfItsTimeline(t *testing.T) {
	remembering(t, func(p *play) {
		p.sink.SetStored(core.Checkpoint{})
		p.startWith(func(o *pipeline.Options) { o.AdoptSlot = true })
		p.stream(base)
		p.stops()
		p.promoted("0/1000100", false)
		p.startWith(nil)
		p.haltsOnTimeline()
	})
}

func (s *shelf) startLib(change func(o *pipeline.Options)) {
	s.startWith(func(o *pipeline.Options) {
		o.Sink, o.Store = s.sink, s.store
		if change != nil {
			change(o)
		}
	})
}

// rowOnTimelineOne is a row that was claimed before the source was promoted, and has no
// resume state.
func rowOnTimelineOne(t *testing.T, script func(s *shelf)) {
	t.Helper()
	inLibBubble(t, func(s *shelf) {
		claim := checkpoint.Claiming{StreamID: "s", Read: s.row().Epoch, Sender: [16]byte{7}, Source: core.SourceIdentity{
			SystemIdentifier: "7000000000000000001", Database: "source", Timeline: 1,
		}}
		_, err := s.store.Claim(s.Context(), claim)
		require.NoError(s, err)
		s.promoted("0/1000100", false)
		script(s)
	})
}
