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
	handler, ok := s.sink.(core.CheckpointHandler)
	if !ok {
		return nil, unimplemented(core.CapCheckpoint)
	}
	request, err := wire.CheckpointRequestFromProto(m)
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
	handler, ok := s.sink.(core.MessageHandler)
	if !ok {
		return nil, unimplemented(core.CapMessage)
	}
	unit, err := wire.MessageUnitFromProto(m)
	if err != nil {
		return nil, err
	}
	if unit.Call.Owner == core.OwnerSink && unit.Checkpoint == 0 {
		return nil, &wire.FieldError{Path: "checkpoint_lsn", Problem: "missing"}
	}
	_, leave, err := s.streams.write(ctx, &unit.Call)
	if err != nil {
		return nil, err
	}
	defer leave()
	ack, err := handler.HandleMessage(ctx, unit)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleMessageResponse{
		CheckpointLsn: wire.OptionalLSN(ack.Checkpoint), Counts: wire.CountsToProto(ack.Counts),
	}, nil
}

// HandleSchemaChange is told a new shape.
func (s *server) HandleSchemaChange(ctx context.Context, m *sinkv1.HandleSchemaChangeRequest) (*sinkv1.HandleSchemaChangeResponse, error) {
	handler, ok := s.sink.(core.SchemaChangeHandler)
	if !ok {
		return nil, unimplemented(core.CapSchemaChange)
	}
	unit, err := wire.SchemaChangeUnitFromProto(m)
	if err != nil {
		return nil, err
	}
	_, leave, err := s.streams.write(ctx, &unit.Call)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := handler.HandleSchemaChange(ctx, unit); err != nil {
		return nil, err
	}
	return &sinkv1.HandleSchemaChangeResponse{}, nil
}

// HandleSessionIdentity may veto a source.
func (s *server) HandleSessionIdentity(ctx context.Context, m *sinkv1.HandleSessionIdentityRequest) (*sinkv1.HandleSessionIdentityResponse, error) {
	handler, ok := s.sink.(core.SessionIdentityHandler)
	if !ok {
		return nil, unimplemented(core.CapSessionIdentity)
	}
	identity, err := wire.SessionIdentityFromProto(m)
	if err != nil {
		return nil, err
	}
	if err := handler.HandleSessionIdentity(ctx, identity); err != nil {
		return nil, err
	}
	return &sinkv1.HandleSessionIdentityResponse{}, nil
}

// HandleSlotOrigin may veto a starting position.
func (s *server) HandleSlotOrigin(ctx context.Context, m *sinkv1.HandleSlotOriginRequest) (*sinkv1.HandleSlotOriginResponse, error) {
	handler, ok := s.sink.(core.SlotOriginHandler)
	if !ok {
		return nil, unimplemented(core.CapSlotOrigin)
	}
	origin, err := wire.SlotOriginFromProto(m)
	if err != nil {
		return nil, err
	}
	if err := handler.HandleSlotOrigin(ctx, origin); err != nil {
		return nil, err
	}
	return &sinkv1.HandleSlotOriginResponse{}, nil
}
