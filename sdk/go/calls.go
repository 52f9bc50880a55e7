package sink

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func unimplemented(capability core.Capability) error {
	return status.Error(codes.Unimplemented, "this sink has no "+capability.String())
}

// asked is what a unary call begins with: the sink's handler H for a capability, and the
// request in the project's own nouns.
func asked[H, M, R any](s *server, capability core.Capability, m M, decode func(M) (R, error)) (handler H, request R, err error) {
	handler, ok := s.sink.(H)
	if !ok {
		return handler, request, unimplemented(capability)
	}
	request, err = decode(m)
	return handler, request, err
}

// inTurn runs a handler that stores something: alone on its stream, and only for the sender
// that rules it.
func inTurn[U, A any](ctx context.Context, s *server, call *core.Call, handle func(context.Context, U) (A, error), unit U) (answer A, err error) {
	_, leave, err := s.streams.write(ctx, call)
	if err != nil {
		return answer, err
	}
	defer leave()
	return handle(ctx, unit)
}

// positioned refuses a unit that moves the sink's checkpoint to nowhere.
func positioned(call *core.Call, checkpoint core.LSN) error {
	if call.Owner == core.OwnerSink && checkpoint == 0 {
		return &wire.FieldError{Path: "checkpoint_lsn", Problem: "missing"}
	}
	return nil
}

// GetCapabilities says what the sink implements.
func (s *server) GetCapabilities(ctx context.Context, _ *sinkv1.GetCapabilitiesRequest) (*sinkv1.GetCapabilitiesResponse, error) {
	capabilities, err := s.advertise(ctx)
	if err != nil {
		return nil, err
	}
	return wire.CapabilitiesToProto(capabilities), nil
}

// Checkpoint with a claim waits for the write in progress. A read waits only where the
// store's own Load does.
func (s *server) Checkpoint(ctx context.Context, m *sinkv1.CheckpointRequest) (*sinkv1.CheckpointResponse, error) {
	handler, request, err := asked[core.CheckpointHandler](s, core.CapCheckpoint, m, wire.CheckpointRequestFromProto)
	if err != nil {
		return nil, err
	}
	if request.Claim != nil {
		leave, err := s.streams.claim(ctx, request.StreamID, request.Claim.Epoch)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	checkpoint, err := handler.Checkpoint(ctx, request)
	if err != nil {
		return nil, err
	}
	return wire.CheckpointToProto(checkpoint), nil
}

// HandleMessage takes a message outside of any transaction.
func (s *server) HandleMessage(ctx context.Context, m *sinkv1.HandleMessageRequest) (*sinkv1.HandleMessageResponse, error) {
	handler, unit, err := asked[core.MessageHandler](s, core.CapMessage, m, wire.MessageUnitFromProto)
	if err != nil {
		return nil, err
	}
	if err := positioned(&unit.Call, unit.Checkpoint); err != nil {
		return nil, err
	}
	ack, err := inTurn(ctx, s, &unit.Call, handler.HandleMessage, unit)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleMessageResponse{
		CheckpointLsn: wire.OptionalLSN(ack.Checkpoint), Counts: wire.CountsToProto(ack.Counts),
	}, nil
}

// HandleSchemaChange is told a new shape.
func (s *server) HandleSchemaChange(ctx context.Context, m *sinkv1.HandleSchemaChangeRequest) (*sinkv1.HandleSchemaChangeResponse, error) {
	handler, unit, err := asked[core.SchemaChangeHandler](s, core.CapSchemaChange, m, wire.SchemaChangeUnitFromProto)
	if err != nil {
		return nil, err
	}
	_, leave, err := s.streams.write(ctx, &unit.Call)
	if err != nil {
		return nil, err
	}
	defer leave()
	return &sinkv1.HandleSchemaChangeResponse{}, handler.HandleSchemaChange(ctx, unit)
}

// HandleSessionIdentity may veto a source.
func (s *server) HandleSessionIdentity(ctx context.Context, m *sinkv1.HandleSessionIdentityRequest) (*sinkv1.HandleSessionIdentityResponse, error) {
	handler, identity, err := asked[core.SessionIdentityHandler](s, core.CapSessionIdentity, m, wire.SessionIdentityFromProto)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleSessionIdentityResponse{}, handler.HandleSessionIdentity(ctx, identity)
}

// HandleSlotOrigin may veto a starting position.
func (s *server) HandleSlotOrigin(ctx context.Context, m *sinkv1.HandleSlotOriginRequest) (*sinkv1.HandleSlotOriginResponse, error) {
	handler, origin, err := asked[core.SlotOriginHandler](s, core.CapSlotOrigin, m, wire.SlotOriginFromProto)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleSlotOriginResponse{}, handler.HandleSlotOrigin(ctx, origin)
}
