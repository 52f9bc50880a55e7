package remotesink

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Sink speaks to one sink process. It is safe for concurrent use, though the contract
// allows one call of a stream at a time.
type Sink struct {
	conn    *grpc.ClientConn
	options Options

	mu      sync.Mutex
	encoder wire.Encoder
	limits  core.SinkLimits
}

var (
	_ core.Sink                    = (*Sink)(nil)
	_ core.CheckpointHandler       = (*Sink)(nil)
	_ core.TransactionHandler      = (*Sink)(nil)
	_ core.BatchHandler            = (*Sink)(nil)
	_ core.LargeTransactionHandler = (*Sink)(nil)
	_ core.MessageHandler          = (*Sink)(nil)
	_ core.SchemaChangeHandler     = (*Sink)(nil)
	_ core.SnapshotHandler         = (*Sink)(nil)
	_ core.SnapshotCompleteHandler = (*Sink)(nil)
	_ core.SnapshotProgressHandler = (*Sink)(nil)
	_ core.SessionIdentityHandler  = (*Sink)(nil)
	_ core.SlotOriginHandler       = (*Sink)(nil)
)

// New checks the options and makes the sink. It connects with the first call.
func New(options Options) (*Sink, error) {
	at, err := options.check()
	if err != nil {
		return nil, err
	}
	if options.ProgressTimeout <= 0 {
		options.ProgressTimeout = ProgressTimeoutDefault
	}
	conn, err := dial(options, at)
	if err != nil {
		return nil, err
	}
	return &Sink{conn: conn, options: options, limits: core.SinkLimits{}.Resolved()}, nil
}

// Close ends the connection and every call on it.
func (s *Sink) Close() error { return s.conn.Close() }

// invoke makes one unary call. Its error is a *core.SinkError.
func (s *Sink) invoke(ctx context.Context, call string, request, response any) error {
	var trailer metadata.MD
	var sink peer.Peer
	err := s.conn.Invoke(ctx, method(call), request, response, grpc.Trailer(&trailer), grpc.Peer(&sink))
	if err != nil {
		return wire.SinkErrorOf(call, err, trailer, sink.Addr == nil)
	}
	return nil
}

func method(call string) string { return "/" + sinkv1.SinkService_ServiceDesc.ServiceName + "/" + call }

// Capabilities asks the sink what it is. Its limits count for the large calls from now
// on.
func (s *Sink) Capabilities(ctx context.Context) (core.Capabilities, error) {
	const call = wire.CallGetCapabilities
	var response sinkv1.GetCapabilitiesResponse
	if err := s.invoke(ctx, call, wire.CapabilitiesRequest(s.options.Version), &response); err != nil {
		return core.Capabilities{}, err
	}
	capabilities, err := wire.CapabilitiesFromProto(&response)
	if err != nil {
		return core.Capabilities{}, wire.ContractBreach(call, err)
	}
	s.mu.Lock()
	s.limits = capabilities.Limits.Resolved()
	s.mu.Unlock()
	return capabilities, nil
}
