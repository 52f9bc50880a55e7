package sink

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// server is the service: it checks and converts, the sink does the work.
type server struct {
	sinkv1.UnimplementedSinkServiceServer
	sink      core.Sink
	set       core.CapabilitySet
	options   options
	streams   *streams
	relations wire.RelationCache
	decoders  sync.Pool
}

func newServer(s core.Sink, o options) *server {
	made := &server{sink: s, set: implemented(s), options: o, streams: newStreams(newInstance())}
	made.decoders.New = func() any { return wire.NewDecoder(&made.relations) }
	return made
}

// serviceDesc is the generated description, but for the calls that carry rows: their
// requests arrive as bytes and are read as views.
func serviceDesc() *grpc.ServiceDesc {
	desc := sinkv1.SinkService_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range desc.Methods {
		switch desc.Methods[i].MethodName {
		case "HandleTransaction":
			desc.Methods[i].Handler = rawMethod("HandleTransaction", (*server).transaction)
		case "HandleBatch":
			desc.Methods[i].Handler = rawMethod("HandleBatch", (*server).batch)
		case "HandleSnapshot":
			desc.Methods[i].Handler = rawMethod("HandleSnapshot", (*server).snapshot)
		}
	}
	desc.Streams = []grpc.StreamDesc{{
		StreamName: "HandleLargeTransaction", ClientStreams: true,
		Handler: func(s any, stream grpc.ServerStream) error { return s.(*server).large(stream) },
	}}
	return &desc
}

type rawHandler func(*server, context.Context, []byte) (any, error)

// rawMethod makes a unary method whose request is freed when the call is over.
func rawMethod(name string, handle rawHandler) grpc.MethodHandler {
	full := "/" + sinkv1.SinkService_ServiceDesc.ServiceName + "/" + name
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		request := new(wire.Raw)
		if err := decode(request); err != nil {
			return nil, err
		}
		defer request.Free()
		run := func(ctx context.Context, _ any) (any, error) {
			return handle(srv.(*server), ctx, request.Bytes())
		}
		if intercept == nil {
			return run(ctx, request)
		}
		return intercept(ctx, request, &grpc.UnaryServerInfo{Server: srv, FullMethod: full}, run)
	}
}

func (s *server) transaction(ctx context.Context, request []byte) (any, error) {
	handler, ok := s.sink.(core.TransactionHandler)
	if !ok {
		return nil, unimplemented(core.CapTransaction)
	}
	ack, err := s.unit(ctx, request, (*wire.Decoder).Transaction, handler.HandleTransaction)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleTransactionResponse{
		CheckpointLsn: wire.OptionalLSN(ack.Checkpoint), Counts: wire.CountsToProto(ack.Counts),
	}, nil
}

func (s *server) batch(ctx context.Context, request []byte) (any, error) {
	handler, ok := s.sink.(core.BatchHandler)
	if !ok {
		return nil, unimplemented(core.CapBatch)
	}
	ack, err := s.unit(ctx, request, (*wire.Decoder).Batch, handler.HandleBatch)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleBatchResponse{
		CheckpointLsn: wire.OptionalLSN(ack.Checkpoint), Counts: wire.CountsToProto(ack.Counts),
	}, nil
}

type (
	decodeUnit func(*wire.Decoder, []byte) (*core.Unit, error)
	handleUnit func(context.Context, *core.Unit) (core.Ack, error)
)

// unit decodes while an earlier call of the stream may still run, then waits its turn.
func (s *server) unit(ctx context.Context, request []byte, decode decodeUnit, handle handleUnit) (core.Ack, error) {
	decoder := s.decoders.Get().(*wire.Decoder)
	defer func() {
		decoder.Release()
		s.decoders.Put(decoder)
	}()
	unit, err := decode(decoder, request)
	if err != nil {
		return core.Ack{}, err
	}
	if err := checkUnit(unit); err != nil {
		return core.Ack{}, err
	}
	return inTurn(ctx, s, &unit.Call, handle, unit)
}

// checkUnit holds positions against each other (P-501). With owner SIDECAR positions
// mean nothing to a sink.
func checkUnit(unit *core.Unit) error {
	if unit.Call.Owner != core.OwnerSink {
		return nil
	}
	if err := positioned(&unit.Call, unit.Checkpoint); err != nil {
		return err
	}
	var last core.LSN
	for i := range unit.Transactions {
		if unit.Transactions[i].EndLSN <= last {
			return &wire.FieldError{Path: "transactions", Problem: "end_lsn does not rise"}
		}
		last = unit.Transactions[i].EndLSN
	}
	if unit.Checkpoint < last {
		return &wire.FieldError{Path: "checkpoint_lsn", Problem: "below the end_lsn of the last transaction"}
	}
	return nil
}
