package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

const servicePrefix = "/replicant.sink.v1."

// Serve serves the sink at "unix:/path" or "host:port" until ctx ends. Then it takes no
// new call, lets those in progress end within the grace time, and returns nil.
func Serve(ctx context.Context, address string, s core.Sink, list ...Option) error {
	o := resolve(list)
	listener, err := listen(address, o)
	if err != nil {
		return err
	}
	return serve(ctx, listener, s, o)
}

// ServeListener is Serve on a listener that is open already; it is closed at the end.
func ServeListener(ctx context.Context, listener net.Listener, s core.Sink, list ...Option) error {
	return serve(ctx, listener, s, resolve(list))
}

// ErrNothingImplemented says that a sink has no call that stores anything.
var ErrNothingImplemented = errors.New("the sink implements neither HandleTransaction nor HandleBatch")

func serve(ctx context.Context, listener net.Listener, s core.Sink, o options) error {
	if err := usable(ctx, s); err != nil {
		_ = listener.Close()
		return err
	}
	grpcServer, healthServer := build(s, o)
	stopped := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
			healthServer.Shutdown()
			stop(grpcServer, o.grace)
		case <-ended:
		}
	}()
	err := grpcServer.Serve(listener)
	close(ended)
	<-stopped
	if ctx.Err() != nil {
		return nil
	}
	grpcServer.Stop()
	return err
}

// usable finds what no sidecar would take before one asks. A sink that cannot say yet
// what it is may still become ready.
func usable(ctx context.Context, s core.Sink) error {
	if set := implemented(s); !set.Has(core.CapTransaction) && !set.Has(core.CapBatch) {
		return ErrNothingImplemented
	}
	about, err := s.Capabilities(ctx)
	if err != nil {
		return nil
	}
	if err := wire.CheckCapabilities(about); err != nil {
		return fmt.Errorf("the sink's capabilities: %w", err)
	}
	return nil
}

func build(s core.Sink, o options) (*grpc.Server, *health.Server) {
	list := append(chain(o),
		grpc.ForceServerCodecV2(wire.Codec{}),
		grpc.MaxRecvMsgSize(core.ReceiveBytesMax),
		grpc.MaxSendMsgSize(core.ReceiveBytesMax),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		// A sidecar that froze must not hold its stream's turn for ever.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	)
	if o.tls != nil {
		list = append(list, grpc.Creds(credentials.NewTLS(o.tls)))
	}
	server := grpc.NewServer(append(list, o.grpc...)...)
	server.RegisterService(serviceDesc(), newServer(s, o))
	healthServer := health.NewServer()
	healthServer.SetServingStatus(sinkv1.SinkService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthServer)
	reflection.Register(server)
	return server, healthServer
}

// stop lets calls in progress end, and cuts them off after the grace time.
func stop(server *grpc.Server, grace time.Duration) {
	timer := time.AfterFunc(grace, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}
