package testsink

import (
	"context"
	"log/slog"
	"os"
	"path"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// Name and Version are what the sink says of itself.
const (
	Name    = "testsink"
	Version = "1"
)

// Run serves the sink as a program: where REPLICANT_SINK_LISTEN says, until SIGTERM.
func Run(c Config) error {
	store := Open(c)
	defer store.Close()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return sink.Run(store.Sink(), append(store.Options(), sink.WithLogger(logger))...)
}

// Sink is the store as a sink. It must be served with Options.
func (s *Store) Sink() core.Sink {
	kind := core.StateMirror
	if s.config.Kind == KindLog {
		kind = core.AppendLog
	}
	return sink.FromStore(Name, Version, s, sink.StoreOptions{Kind: kind, Limits: s.config.Limits})
}

// Options put between wire and sink what a well-behaved sink has not: failpoints,
// breaches, capabilities that are missing, and calls that outlive their caller.
func (s *Store) Options() []sink.Option {
	g := &gate{config: s.config, breaker: breaker{Breach: s.config.Breach}}
	return []sink.Option{sink.WithServerOptions(
		grpc.ChainUnaryInterceptor(g.unary), grpc.ChainStreamInterceptor(g.stream))}
}

type gate struct {
	config  Config
	breaker breaker
}

func (g *gate) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	call := path.Base(info.FullMethod)
	if g.lacks(calls[call]) {
		return nil, status.Error(codes.Unimplemented, "not offered")
	}
	switch call {
	case "GetCapabilities":
		response, err := next(ctx, request)
		if err == nil {
			g.reduce(response.(*sinkv1.GetCapabilitiesResponse))
		}
		return response, err
	case "Checkpoint":
		if request.(*sinkv1.CheckpointRequest).Claim == nil {
			return next(ctx, request)
		}
		if err := failpoint.Hit(failpoint.SinkClaim); err != nil {
			return nil, err
		}
		return next(context.WithoutCancel(ctx), request)
	case "HandleTransaction", "HandleBatch", "HandleMessage", "HandleSnapshot", "HandleSnapshotComplete":
		if err := failpoint.Hit(failpoint.SinkCall); err != nil {
			return nil, err
		}
		return g.breaker.around(context.WithoutCancel(ctx), request, next)
	case "HandleSchemaChange":
		return next(context.WithoutCancel(ctx), request)
	}
	return next(ctx, request)
}

// stream leaves the call's context alone: a transaction whose frames stop coming cannot
// be ended by anybody. Its commit outlives the caller all the same, see Store.Begin.
func (g *gate) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if path.Base(info.FullMethod) != "HandleLargeTransaction" {
		return next(srv, stream)
	}
	if g.lacks(core.CapLargeTransaction) {
		return status.Error(codes.Unimplemented, "not offered")
	}
	if err := failpoint.Hit(failpoint.SinkCall); err != nil {
		return err
	}
	return next(srv, stream)
}

// calls that need a capability.
var calls = map[string]core.Capability{
	"Checkpoint": core.CapCheckpoint, "HandleTransaction": core.CapTransaction, "HandleBatch": core.CapBatch,
	"HandleMessage": core.CapMessage, "HandleSchemaChange": core.CapSchemaChange,
	"HandleSnapshot": core.CapSnapshot, "HandleSnapshotComplete": core.CapSnapshotComplete,
	"SnapshotProgress": core.CapSnapshotProgress,
}

// withCheckpoint are the capabilities of a sink that keeps its checkpoint.
var withCheckpoint = []core.Capability{
	core.CapCheckpoint, core.CapResumeState, core.CapSnapshotComplete, core.CapSnapshotProgress,
}

// lacks reports whether the sink was told to do without.
func (g *gate) lacks(c core.Capability) bool {
	if g.config.Lib && slices.Contains(withCheckpoint, c) {
		return true
	}
	return slices.Contains(g.config.Without, c.String())
}

// reduce takes out of an answer what the sink is to do without.
func (g *gate) reduce(r *sinkv1.GetCapabilitiesResponse) {
	r.Capabilities = slices.DeleteFunc(r.Capabilities, func(c sinkv1.Capability) bool {
		return g.lacks(core.Capability(c))
	})
	r.Fencing = slices.DeleteFunc(r.Fencing, func(f sinkv1.Fencing) bool {
		return f == sinkv1.Fencing_FENCING_STORED && g.lacks(core.CapCheckpoint)
	})
}
