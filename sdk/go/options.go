package sink

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Defaults of the options.
const (
	// GraceDefault is how long calls in progress may take to end after a stop.
	GraceDefault = 30 * time.Second
)

type options struct {
	logger       *slog.Logger
	tls          *tls.Config
	insecure     bool
	token        func(string) bool
	grace        time.Duration
	frameTimeout time.Duration
	shared       bool
	onError      func(ctx context.Context, call string, err error)
	onCall       func(call string, code codes.Code, took time.Duration)
	grpc         []grpc.ServerOption
}

// Option changes how a sink is served.
type Option func(*options)

func resolve(list []Option) options {
	o := options{
		logger: slog.New(slog.DiscardHandler), grace: GraceDefault,
		onError: func(context.Context, string, error) {},
	}
	for _, option := range list {
		option(&o)
	}
	return o
}

// WithLogger sets the logger: failures as errors, calls at debug level. There is no row
// value in either.
func WithLogger(logger *slog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithTLS serves TCP over TLS.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// WithPlainTCP allows plain TCP on an address that is not loopback.
func WithPlainTCP() Option { return func(o *options) { o.insecure = true } }

// WithBearerToken refuses calls whose bearer token is not valid. Compare in constant
// time.
func WithBearerToken(valid func(token string) bool) Option {
	return func(o *options) { o.token = valid }
}

// WithGrace sets how long calls in progress may take to end after a stop.
func WithGrace(grace time.Duration) Option { return func(o *options) { o.grace = grace } }

// WithFrameTimeout ends a large transaction of which no frame arrives for so long. The
// default is 0, no limit: a source may be quiet for minutes in the middle of a
// transaction. A frozen or dead sidecar is noticed by keepalive and by the claim of its
// successor.
func WithFrameTimeout(timeout time.Duration) Option {
	return func(o *options) { o.frameTimeout = timeout }
}

// WithSeveralProcesses says that several processes serve this sink behind one address.
// The fence in memory cannot work then and is not advertised.
func WithSeveralProcesses() Option { return func(o *options) { o.shared = true } }

// WithErrorHook is called with every error that a callback returned, as it is. The
// caller of the sink never sees its text, and neither does the logger: a driver's error
// may hold a row value.
func WithErrorHook(hook func(ctx context.Context, call string, err error)) Option {
	return func(o *options) { o.onError = hook }
}

// WithCallObserver is called after every call, for metrics.
func WithCallObserver(observe func(call string, code codes.Code, took time.Duration)) Option {
	return func(o *options) { o.onCall = observe }
}

// WithServerOptions passes options on to gRPC, such as further interceptors. The codec
// must stay.
func WithServerOptions(list ...grpc.ServerOption) Option {
	return func(o *options) { o.grpc = append(o.grpc, list...) }
}
