package remotesink

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/timeout"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
)

// Some servers cut off a client that pings more often than every five minutes, and
// a call has its own deadline anyway.
const keepaliveEvery = 5 * time.Minute

// dial makes the channel. It connects with the first call, and again by itself after a
// loss; a call without a connection fails at once.
func dial(o Options, at endpoint) (*grpc.ClientConn, error) {
	transport, err := transportOf(o, at)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(dialer(o, at)),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 10 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: 20 * time.Second}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(core.ReceiveBytesMax), grpc.ForceCodecV2(wire.Codec{}), grpc.WaitForReady(false),
		),
	}
	if at.network == "unix" {
		options = append(options, grpc.WithAuthority("localhost"))
	}
	if o.TokenFile != "" {
		options = append(options, grpc.WithPerRPCCredentials(&tokenFile{name: o.TokenFile}))
	}
	interceptors, err := interceptors(o)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+at.address, append(options, interceptors...)...)
}

func transportOf(o Options, at endpoint) (credentials.TransportCredentials, error) {
	if o.TLS != nil {
		return credentials.NewTLS(o.TLS), nil
	}
	if !o.TLSFiles.any() {
		return insecure.NewCredentials(), nil
	}
	host := "localhost"
	if at.network == "tcp" {
		host, _, _ = net.SplitHostPort(at.address)
	}
	config, err := o.TLSFiles.config(host)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

func dialer(o Options, at endpoint) func(context.Context, string) (net.Conn, error) {
	if o.DialContext != nil {
		return func(ctx context.Context, _ string) (net.Conn, error) { return o.DialContext(ctx, at.address) }
	}
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, at.network, at.address)
	}
}

// interceptors wrap every call, the first outermost: counted, logged, and never longer
// than the longest deadline of the contract. A client stream has a deadline of progress
// instead of one of length.
func interceptors(o Options) ([]grpc.DialOption, error) {
	unary := []grpc.UnaryClientInterceptor{timeout.UnaryClientInterceptor(core.CallTimeoutMax)}
	var stream []grpc.StreamClientInterceptor
	if o.Logger != nil {
		logger := wire.CallLogger(o.Logger.With(slog.String("component", "sink")))
		unary = append(unary, logging.UnaryClientInterceptor(logger, wire.CallLogOptions()...))
		stream = append(stream, logging.StreamClientInterceptor(logger, wire.CallLogOptions()...))
	}
	if o.Registerer != nil {
		metrics, err := register(o.Registerer)
		if err != nil {
			return nil, err
		}
		unary = append([]grpc.UnaryClientInterceptor{metrics.UnaryClientInterceptor()}, unary...)
		stream = append([]grpc.StreamClientInterceptor{metrics.StreamClientInterceptor()}, stream...)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary...), grpc.WithChainStreamInterceptor(stream...)}, nil
}

// register makes the call metrics, or finds those of an earlier sink of this process.
func register(registerer prometheus.Registerer) (*grpcprom.ClientMetrics, error) {
	metrics := grpcprom.NewClientMetrics(grpcprom.WithClientHandlingTimeHistogram(
		grpcprom.WithHistogramBuckets(prometheus.ExponentialBuckets(0.0005, 2, 18)),
	))
	err := registerer.Register(metrics)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if known, ours := already.ExistingCollector.(*grpcprom.ClientMetrics); ours {
			return known, nil
		}
	}
	return metrics, err
}
