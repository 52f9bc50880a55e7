package remotesink

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Checkpoint reads, or with a claim takes over, the position of a stream.
func (s *Sink) Checkpoint(ctx context.Context, request core.CheckpointRequest) (core.Checkpoint, error) {
	const call = wire.CallCheckpoint
	var response sinkv1.CheckpointResponse
	if err := s.invoke(ctx, call, wire.CheckpointRequestToProto(request), &response); err != nil {
		return core.Checkpoint{}, err
	}
	checkpoint, err := wire.CheckpointFromProto(&response)
	if err != nil {
		return core.Checkpoint{}, wire.ContractBreach(call, err)
	}
	return checkpoint, nil
}

// HandleMessage delivers one message that belongs to no transaction.
func (s *Sink) HandleMessage(ctx context.Context, unit *core.MessageUnit) (core.Ack, error) {
	const call = "HandleMessage"
	var response sinkv1.HandleMessageResponse
	if err := s.invoke(ctx, call, wire.MessageUnitToProto(unit), &response); err != nil {
		return core.Ack{}, err
	}
	return ackOf(call, response.CheckpointLsn, &response)
}

// HandleSchemaChange tells a new shape.
func (s *Sink) HandleSchemaChange(ctx context.Context, unit *core.SchemaChangeUnit) error {
	var response sinkv1.HandleSchemaChangeResponse
	return s.invoke(ctx, "HandleSchemaChange", wire.SchemaChangeUnitToProto(unit), &response)
}

// HandleSnapshotComplete ends an initial copy.
func (s *Sink) HandleSnapshotComplete(ctx context.Context, unit *core.SnapshotCompleteUnit) (core.Ack, error) {
	const call = "HandleSnapshotComplete"
	var response sinkv1.HandleSnapshotCompleteResponse
	if err := s.invoke(ctx, call, wire.SnapshotCompleteToProto(unit), &response); err != nil {
		return core.Ack{}, err
	}
	return ackOf(call, response.CheckpointLsn, &response)
}

// SnapshotProgress asks for the token of an incremental copy.
func (s *Sink) SnapshotProgress(ctx context.Context, request core.SnapshotProgressRequest) ([]byte, error) {
	const call = "SnapshotProgress"
	var response sinkv1.SnapshotProgressResponse
	if err := s.invoke(ctx, call, wire.SnapshotProgressToProto(request), &response); err != nil {
		return nil, err
	}
	token, err := wire.ProgressTokenFromProto(&response)
	if err != nil {
		return nil, wire.ContractBreach(call, err)
	}
	return token, nil
}

// HandleSessionIdentity asks for consent to a source.
func (s *Sink) HandleSessionIdentity(ctx context.Context, identity core.SessionIdentity) error {
	var response sinkv1.HandleSessionIdentityResponse
	return s.invoke(ctx, "HandleSessionIdentity", wire.SessionIdentityToProto(identity), &response)
}

// HandleSlotOrigin asks for consent to a starting position.
func (s *Sink) HandleSlotOrigin(ctx context.Context, origin core.SlotOrigin) error {
	var response sinkv1.HandleSlotOriginResponse
	return s.invoke(ctx, "HandleSlotOrigin", wire.SlotOriginToProto(origin), &response)
}

// counted is what every writing call's response has.
type counted interface{ GetCounts() *sinkv1.Counts }

func ackOf(call string, checkpoint *uint64, response counted) (core.Ack, error) {
	ack, err := wire.AckFromProto(checkpoint, response.GetCounts())
	if err != nil {
		return core.Ack{}, wire.ContractBreach(call, err)
	}
	return ack, nil
}
