package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// protocolMinor is the growth of the contract that the suite knows.
const protocolMinor = 0

// session is one run of the suite against one sink.
type session struct {
	o       Options
	caps    *sinkv1.GetCapabilitiesResponse
	witness witness
	canary  string
	seed    uint64
	oids    uint32
	// dead is set once the sink does not come back: nothing more is tried.
	dead error
	// hung counts the cases in a row that waited in vain.
	hung int
	// keyed: the sink declines tables without a key.
	keyed bool
	// crasher is the one that worked first.
	crasher Crasher
}

func newSession(o Options) *session {
	s := &session{o: o, seed: o.Seed}
	if s.seed == 0 {
		s.seed = rand.Uint64()>>12 + 1
	}
	s.canary = fmt.Sprintf("zq%08xqz-", uint32(s.seed*2654435761))
	s.witness.canary = s.canary
	s.oids = 20000
	return s
}

// patience is how long a sink may take to start or to answer.
func (s *session) patience() time.Duration {
	if s.o.Patience > 0 {
		return s.o.Patience
	}
	return time.Minute
}

func (s *session) has(c sinkv1.Capability) bool {
	return slices.Contains(s.caps.GetCapabilities(), c)
}

// stored reports whether the sink fences by a stored epoch.
func (s *session) stored() bool { return s.fences(sinkv1.Fencing_FENCING_STORED) }

func (s *session) fences(f sinkv1.Fencing) bool { return slices.Contains(s.caps.GetFencing(), f) }

// log reports whether the sink is an append log.
func (s *session) log() bool {
	return s.caps.GetSinkKind() == sinkv1.SinkKind_SINK_KIND_APPEND_LOG
}

// onlyTwoPhase reports whether units reach the sink by Prepare alone.
func (s *session) onlyTwoPhase() bool {
	return s.has(sinkv1.Capability_CAPABILITY_TWO_PHASE) &&
		!s.has(sinkv1.Capability_CAPABILITY_TRANSACTION) && !s.has(sinkv1.Capability_CAPABILITY_BATCH)
}

// up waits until the sink answers GetCapabilities.
func (s *session) up(ctx context.Context, l *link) (*sinkv1.GetCapabilitiesResponse, error) {
	end := time.Now().Add(s.patience())
	for {
		call, cancel := context.WithTimeout(ctx, min(s.patience(), 5*time.Second))
		caps, err := l.sink.GetCapabilities(call, &sinkv1.GetCapabilitiesRequest{
			ProtocolMinor: protocolMinor, SidecarVersion: "conformance",
		})
		cancel()
		if err == nil {
			return caps, nil
		}
		a := refusal(err)
		if a.Code != codes.Unavailable && a.Code != codes.DeadlineExceeded {
			return nil, fmt.Errorf("GetCapabilities answers %w", err)
		}
		if ended, ok := s.o.Target.(interface{ Ended() string }); ok && ended.Ended() != "" {
			return nil, fmt.Errorf("the sink ended: %s", ended.Ended())
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no answer within %s: %w", s.patience(), err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// begin starts the sink and learns what it can.
func (s *session) begin(ctx context.Context) error {
	if err := s.o.Target.Start(ctx); err != nil && !errors.Is(err, ErrNoLifecycle) {
		return fmt.Errorf("start the sink: %w", err)
	}
	l, err := s.dial(func(*answer) {})
	if err != nil {
		return err
	}
	defer l.close()
	if s.caps, err = s.up(ctx, l); err != nil {
		return err
	}
	for _, name := range s.o.Expect {
		if c, known := sinkv1.Capability_value["CAPABILITY_"+strings.ToUpper(name)]; !known || !s.has(sinkv1.Capability(c)) {
			return fmt.Errorf("the sink should advertise %s and does not", name)
		}
	}
	return nil
}

// lifecycle reports whether the sink can be killed and started.
func (s *session) lifecycle() bool {
	l, ok := s.o.Target.(interface{ Lifecycle() bool })
	return ok && l.Lifecycle()
}

// why tells why a case is not run, if so.
func (s *session) why(c *Case) (SkipKind, string) {
	if c.LeftOut != "" {
		return NotApplicable, c.LeftOut
	}
	for _, skip := range s.o.Skip {
		if match(skip.Pattern, c) {
			return ByUser, skip.Reason
		}
	}
	if s.keyed && slices.Contains(aboutKeyless, c.ID) {
		return NotApplicable, "the sink declines tables without a key"
	}
	for _, need := range c.Capabilities {
		if !s.has(need) {
			return NotApplicable, capabilityName(need) + " is not advertised"
		}
	}
	if c.Fencing != 0 && !s.fences(c.Fencing) {
		return NotApplicable, strings.TrimPrefix(c.Fencing.String(), "FENCING_") + " fencing is not advertised"
	}
	if log := s.log(); c.Kind == sinkv1.SinkKind_SINK_KIND_APPEND_LOG != log && c.Kind != 0 {
		return NotApplicable, "the sink is no " + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(c.Kind.String(), "SINK_KIND_"), "_", " "))
	}
	switch {
	case c.Needs&NeedProbe != 0 && s.o.Probe == nil:
		return NotPossible, "nobody reads the sink's store: give a probe"
	case c.Needs&NeedLifecycle != 0 && !s.lifecycle():
		return NotPossible, "the sink is not ours to kill and start"
	case c.Needs&NeedCrash != 0 && len(s.o.Crashers) == 0:
		return NotPossible, "no crash engine"
	case c.Needs&NeedProxy != 0 && s.o.Proxy == nil:
		return NotPossible, "the sink's store is not reached through our proxy"
	case c.Needs&NeedTLS != 0 && s.o.TLS == nil:
		return NotPossible, "no certificates were given"
	}
	return "", ""
}

// match reports whether a pattern of ids selects a case: an id, "IDM", "IDM-*", "*-001",
// or the name of a profile.
func match(pattern string, c *Case) bool {
	p := strings.ToUpper(pattern)
	if p == c.ID || p == c.Group() || p == "*" || strings.EqualFold(pattern, string(c.Profile)) {
		return true
	}
	if head, tail, star := strings.Cut(p, "*"); star {
		return strings.HasPrefix(c.ID, head) && strings.HasSuffix(c.ID, tail) && len(c.ID) >= len(head)+len(tail)
	}
	return false
}

// dial makes a connection to the sink, with the transport and token that were given.
func (s *session) dial(seen func(*answer)) (*link, error) {
	if s.o.TLS == nil {
		return dial(s.o.Target.Address(), seen)
	}
	c, err := s.o.TLS.credentials(nil)
	if err != nil {
		return nil, err
	}
	return dial(s.o.Target.Address(), seen, grpc.WithTransportCredentials(c), grpc.WithPerRPCCredentials(bearer(s.o.TLS.Token)))
}
