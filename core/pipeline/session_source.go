package pipeline

import (
	"context"
	"errors"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// greetSource checks server and publications and lets the sink veto the source.
func (s *session) greetSource(ctx context.Context) error {
	p := s.pipeline
	server, err := asked(ctx, s.catalog.Server)
	if err != nil {
		return err
	}
	switch {
	case server.Version < serverVersionMin:
		return core.NewHalt(core.HaltServerUnsupported, "connect", "server version %d", server.Version)
	case server.InRecovery && server.Version < standbyVersionMin && p.Status().Sessions > 0:
		// It was a primary: the name leads to a standby that may be promoted soon.
		return &again{StateSourceAway, reconnectMax, errRecovering}
	case server.InRecovery && server.Version < standbyVersionMin:
		return core.NewHalt(core.HaltServerUnsupported, "connect", "server version %d is a standby; logical decoding on a standby begins with 16", server.Version)
	case server.WALLevel != "logical":
		return core.NewHalt(core.HaltWALLevel, "connect", "wal_level is %s", server.WALLevel)
	}
	missing, err := asked(ctx, func(ctx context.Context) ([]string, error) {
		return s.catalog.MissingPublications(ctx, p.options.Source.Publications)
	})
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return core.NewHalt(core.HaltPublicationMissing, "connect", "publication %q does not exist", missing[0])
	}
	identity, err := asked(ctx, s.conn.Identify)
	if err != nil {
		return err
	}
	s.source = core.SourceIdentity{
		SystemIdentifier: identity.SystemID, Database: identity.Database,
		Slot: p.options.Source.Slot, Timeline: identity.Timeline,
	}
	s.recovery = server.InRecovery
	if err := p.sameSource(s.source); err != nil {
		return err
	}
	p.board.update(func(st *Status) { st.Source, st.ServerVersion = s.source, server.Version })
	return s.offerIdentity(ctx, identity.XLogPos)
}

const (
	serverVersionMin  = 14_00_00
	standbyVersionMin = 16_00_00
)

var errRecovering = errors.New("the source is a standby now, from which nothing can be read before 16")

// sameSource compares the source with the one this run began with.
func (p *Pipeline) sameSource(now core.SourceIdentity) error {
	before := p.source
	if before != (core.SourceIdentity{}) && (before.SystemIdentifier != now.SystemIdentifier || before.Database != now.Database) {
		return core.NewHalt(core.HaltSourceMismatch, "connect", "the address now leads to another database cluster")
	}
	p.source = now
	return nil
}

func (s *session) offerIdentity(ctx context.Context, current core.LSN) error {
	p := s.pipeline
	if !s.caps.Set.Has(core.CapSessionIdentity) {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := p.handlers.identity.HandleSessionIdentity(ask, core.SessionIdentity{
		StreamID: p.options.StreamID, Source: s.source, CurrentLSN: current,
		Publications: p.options.Source.Publications,
	})
	return classify("HandleSessionIdentity", err)
}

// asked bounds a question to the source: a backend that hangs must not keep a start, and
// the slot that it may hold, for ever.
func asked[T any](ctx context.Context, question func(context.Context) (T, error)) (T, error) {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := question(ask)
	if err != nil && ask.Err() != nil && ctx.Err() == nil {
		return answer, errNoAnswer
	}
	return answer, err
}

// unlock gives the bootstrap lock back, also at the end of ctx. A server that does not
// answer frees it with the connection.
func unlock(ctx context.Context, release func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	_ = release(ctx)
}

func (s *session) slot(ctx context.Context) (wal.SlotState, error) {
	return s.catalog.Slot(ctx, s.pipeline.options.Source.Slot)
}
