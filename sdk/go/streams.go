package sink

import (
	"bytes"
	"context"
	"sync"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// streams runs the calls of each stream one after the other, and fences in memory the
// calls of streams whose checkpoint the sidecar keeps.
type streams struct {
	instance []byte
	mu       sync.Mutex
	known    map[string]*stream
}

// stream is one stream id. turn holds one token; who has it may run.
type stream struct {
	turn            chan struct{}
	epoch, sequence uint64 // highest seen, with owner SIDECAR only
	seen            bool
	running         *running
}

// running is the call that has the turn. overtake is closed when a claim of a higher
// epoch waits for it.
type running struct {
	epoch    uint64
	once     sync.Once
	overtake chan struct{}
}

func newStreams(instance []byte) *streams {
	return &streams{instance: instance, known: make(map[string]*stream)}
}

func (s *streams) stream(id string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[id]
	if known == nil {
		known = &stream{turn: make(chan struct{}, 1)}
		s.known[id] = known
	}
	return known
}

// write waits for the turn of a writing call and tests its fence. The caller calls
// leave when the call is over, however it ended.
func (s *streams) write(ctx context.Context, call *core.Call) (now *running, leave func(), err error) {
	at := s.stream(call.StreamID)
	now = &running{epoch: call.Epoch, overtake: make(chan struct{})}
	if leave, err = s.enter(ctx, at, now); err != nil {
		return nil, nil, err
	}
	if call.Owner == core.OwnerSidecar {
		if err := s.fence(at, call); err != nil {
			leave()
			return nil, nil, err
		}
	}
	return now, leave, nil
}

// claim waits for the turn of a claim. A call of a lower epoch that only waits for its
// sidecar's next frame is told to give way.
func (s *streams) claim(ctx context.Context, id string, epoch uint64) (leave func(), err error) {
	at := s.stream(id)
	s.mu.Lock()
	if held := at.running; held != nil && held.epoch < epoch {
		held.once.Do(func() { close(held.overtake) })
	}
	s.mu.Unlock()
	return s.enter(ctx, at, &running{epoch: epoch, overtake: make(chan struct{})})
}

func (s *streams) enter(ctx context.Context, at *stream, call *running) (func(), error) {
	select {
	case at.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		<-at.turn
		return nil, err // a call that nobody waits for any more does not begin
	}
	s.mu.Lock()
	at.running = call
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		at.running = nil
		s.mu.Unlock()
		<-at.turn
	}, nil
}

// fence is the fence of owner SIDECAR (S-111). It is tested with the turn in hand, so
// that what it lets pass runs before anything that it learns later.
func (s *streams) fence(at *stream, call *core.Call) error {
	switch {
	case !bytes.Equal(call.InstanceID, s.instance):
		return &core.Refusal{Reason: core.ReasonInstanceChanged}
	case at.seen && call.Epoch < at.epoch:
		return &core.Refusal{Reason: core.ReasonFenced}
	case at.seen && call.Epoch == at.epoch && call.Sequence <= at.sequence:
		return &core.Refusal{Reason: core.ReasonStaleDelivery}
	}
	at.seen, at.epoch, at.sequence = true, call.Epoch, call.Sequence
	return nil
}
