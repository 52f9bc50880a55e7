package badsinks

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Sink is one process of the reference sink.
type Sink struct {
	sinkv1.UnimplementedSinkServiceServer
	two twoPhase

	store    *store
	variant  Variant
	defect   Defect
	instance []byte
	starts   int // processes that had this disk, this one included
	// epochs is what a sink remembers that keeps its fence in memory.
	epochs map[string]uint64

	fenceMu sync.Mutex
	seen    map[string]fence

	asked    atomic.Int64 // GetCapabilities calls
	canceled sync.Map     // stream id to how many calls were cancelled
	promised sync.Map     // stream id to a position that is told ahead of its commit
	rowSeq   atomic.Int64
	replays  map[string]int
	requests map[string]bool // what a sink remembers that dedupes by content
	layouts  map[string][]string
	// memory is what a sink holds that stores less than it says.
	memory map[string]any
	opened map[string]uint64 // highest epoch of a stream's two-phase calls
}

func newSink(d *disk, v Variant, defect Defect) *Sink {
	s := &Sink{
		store: openStore(d, defect), variant: v, defect: defect, instance: random16(),
		epochs: map[string]uint64{}, seen: map[string]fence{}, replays: map[string]int{},
		requests: map[string]bool{}, layouts: map[string][]string{}, memory: map[string]any{}, opened: map[string]uint64{},
	}
	s.two.sink = s
	s.starts = s.store.life
	if s.is(FixedInstance) {
		s.instance = []byte("0123456789abcdef")
	}
	if s.is(ShortInstance) {
		s.instance = s.instance[:8]
	}
	s.rowSeq.Store(int64(s.store.life) << 32)
	return s
}

func (s *Sink) is(d Defect) bool { return s.defect == d }

// register serves the sink.
func (s *Sink) register(g *grpc.Server) {
	sinkv1.RegisterSinkServiceServer(g, s)
	if s.advertises(sinkv1.Capability_CAPABILITY_TWO_PHASE) {
		sinkv1.RegisterTwoPhaseSinkServiceServer(g, &s.two)
	}
}

// touch is what every call does first.
func (s *Sink) touch() {
	if s.is(AckBeforeCommit) || s.is(LibAckEarly) {
		s.store.flush()
	}
}

func (s *Sink) advertises(c sinkv1.Capability) bool {
	return slices.Contains(s.variant.Capabilities, c)
}

// missing answers a call that this variant has not.
func (s *Sink) missing(c sinkv1.Capability) error {
	s.touch()
	if s.advertises(c) && !(s.is(HollowVeto) && c == sinkv1.Capability_CAPABILITY_SLOT_ORIGIN) {
		return nil
	}
	return status.Error(codes.Unimplemented, "this sink has no such call")
}

// GetCapabilities says what this sink is.
func (s *Sink) GetCapabilities(_ context.Context, q *sinkv1.GetCapabilitiesRequest) (*sinkv1.GetCapabilitiesResponse, error) {
	s.touch()
	n := s.asked.Add(1)
	r := &sinkv1.GetCapabilitiesResponse{
		SinkName: "reference", SinkVersion: "1", InstanceId: s.instance, SinkKind: s.variant.Kind,
		Capabilities: s.variant.Capabilities, Fencing: s.variant.Fencing,
		Limits: &sinkv1.Limits{
			MaxRequestBytes: 8 << 20, PreferredRequestBytes: 1 << 20, MaxTransactionsPerBatch: 1000,
		},
	}
	switch {
	case s.is(RefusesNewMinor) && q.GetProtocolMinor() > 50:
		return nil, status.Error(codes.FailedPrecondition, "too new")
	case s.is(CapabilitiesWander) && n%2 == 0:
		r.SinkVersion = "2"
	case s.is(RenamedByRestart) && s.starts > 1:
		r.SinkName = "reference-" + strings.Repeat("i", s.starts)
	}
	return r, nil
}

// HandleSessionIdentity accepts every source.
func (s *Sink) HandleSessionIdentity(_ context.Context, q *sinkv1.HandleSessionIdentityRequest) (*sinkv1.HandleSessionIdentityResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_SESSION_IDENTITY); err != nil {
		return nil, err
	}
	if s.is(VetoCreates) {
		t := s.store.begin()
		defer t.end()
		row := t.stream(q.GetStreamId())
		row.bound, row.system, row.epoch = true, "another", 1
		t.setStream(q.GetStreamId(), row)
		return &sinkv1.HandleSessionIdentityResponse{}, t.commit()
	}
	return &sinkv1.HandleSessionIdentityResponse{}, nil
}

// HandleSlotOrigin accepts every origin.
func (s *Sink) HandleSlotOrigin(context.Context, *sinkv1.HandleSlotOriginRequest) (*sinkv1.HandleSlotOriginResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_SLOT_ORIGIN); err != nil && !s.is(SilentOK) {
		return nil, err
	}
	return &sinkv1.HandleSlotOriginResponse{}, nil
}

// work is the time that a slow store takes for each thousand rows.
func (s *Sink) work(ctx context.Context, rows int) error {
	if rows%1000 == 999 {
		time.Sleep(time.Millisecond)
		if s.is(ZombieHandler) {
			return nil
		}
		return ctx.Err()
	}
	return nil
}
