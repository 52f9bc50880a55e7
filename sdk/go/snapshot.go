package sink

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// snapshot takes rows that were read beside the stream. No position is answered.
func (s *server) snapshot(ctx context.Context, request []byte) (any, error) {
	handler, ok := s.sink.(core.SnapshotHandler)
	if !ok {
		return nil, unimplemented(core.CapSnapshot)
	}
	decoder := s.decoders.Get().(*wire.Decoder)
	defer func() {
		decoder.Release()
		s.decoders.Put(decoder)
	}()
	unit, err := decoder.Snapshot(request)
	if err != nil {
		return nil, err
	}
	counts, err := inTurn(ctx, s, &unit.Call, handler.HandleSnapshot, unit)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleSnapshotResponse{Counts: wire.CountsToProto(counts)}, nil
}

// HandleSnapshotComplete takes the end of an initial copy, and with it the position.
func (s *server) HandleSnapshotComplete(ctx context.Context, m *sinkv1.HandleSnapshotCompleteRequest) (*sinkv1.HandleSnapshotCompleteResponse, error) {
	handler, unit, err := asked[core.SnapshotCompleteHandler](s, core.CapSnapshotComplete, m, wire.SnapshotCompleteFromProto)
	if err != nil {
		return nil, err
	}
	if err := positioned(&unit.Call, unit.Checkpoint); err != nil {
		return nil, err
	}
	ack, err := inTurn(ctx, s, &unit.Call, handler.HandleSnapshotComplete, unit)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleSnapshotCompleteResponse{
		CheckpointLsn: wire.OptionalLSN(ack.Checkpoint), Counts: wire.CountsToProto(ack.Counts),
	}, nil
}

// SnapshotProgress gives the token back. It only reads, and what counts is asked after the
// claim of the same sidecar or while no other can make a slot, so it waits for no turn.
func (s *server) SnapshotProgress(ctx context.Context, m *sinkv1.SnapshotProgressRequest) (*sinkv1.SnapshotProgressResponse, error) {
	handler, request, err := asked[core.SnapshotProgressHandler](s, core.CapSnapshotProgress, m, wire.SnapshotProgressFromProto)
	if err != nil {
		return nil, err
	}
	token, err := handler.SnapshotProgress(ctx, request)
	if err != nil {
		return nil, err
	}
	return &sinkv1.SnapshotProgressResponse{ProgressToken: token}, nil
}
