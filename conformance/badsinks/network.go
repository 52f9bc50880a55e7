package badsinks

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Network is the way to a remote disk, and does there what a proxy does: it loses answers, and
// takes the disk away for a while.
type Network struct{ p *Process }

// Network is a crasher for the sink's way to its disk.
func (p *Process) Network() *Network { return &Network{p} }

// Engine names the crasher.
func (n *Network) Engine() string { return "proxy" }

// Shut takes the disk away.
func (n *Network) Shut() { n.p.disk.shut(true) }

// Open brings it back.
func (n *Network) Open() { n.p.disk.shut(false) }

// Visit loses the answer of each write in turn. The sink lives, and must come back by itself.
func (n *Network) Visit(ctx context.Context, plan conformance.CrashPlan) (conformance.CrashMap, error) {
	return n.p.visit(ctx, plan, n.Engine(), n.p.disk.armCut, func() error { return nil })
}

// uncommitted is what becomes of a unit whose commit failed.
func (s *Sink) uncommitted(ctx context.Context, t *tx, w *writing, err error) (*sinkv1.Counts, error) {
	switch {
	case s.is(RetriesLostCommit) && errors.Is(err, errLost):
		s.store.stale = false
		t.end()
		return s.handle(ctx, w)
	case s.is(AwayIsInternal) && errors.Is(err, errAway):
		return nil, status.Error(codes.Internal, "the store failed")
	}
	return nil, storeError(err)
}
