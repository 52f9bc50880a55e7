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
	_, leave, err := s.streams.write(ctx, &unit.Call)
	if err != nil {
		return nil, err
	}
	defer leave()
	counts, err := handler.HandleSnapshot(ctx, unit)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleSnapshotResponse{Counts: wire.CountsToProto(counts)}, nil
}

// HandleSnapshotComplete takes the end of an initial copy, and with it the position.
func (s *server) HandleSnapshotComplete(ctx context.Context, m *sinkv1.HandleSnapshotCompleteRequest) (*sinkv1.HandleSnapshotCompleteResponse, error) {
	handler, ok := s.sink.(core.SnapshotCompleteHandler)
	if !ok {
		return nil, unimplemented(core.CapSnapshotComplete)
	}
	unit, err := wire.SnapshotCompleteFromProto(m)
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
	ack, err := handler.HandleSnapshotComplete(ctx, unit)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleSnapshotCompleteResponse{
		CheckpointLsn: wire.OptionalLSN(ack.Checkpoint), Counts: wire.CountsToProto(ack.Counts),
	}, nil
}

// SnapshotProgress gives the token back. It only reads, and comes after the claim of the
// same sidecar, so it waits for no turn.
func (s *server) SnapshotProgress(ctx context.Context, m *sinkv1.SnapshotProgressRequest) (*sinkv1.SnapshotProgressResponse, error) {
	handler, ok := s.sink.(core.SnapshotProgressHandler)
	if !ok {
		return nil, unimplemented(core.CapSnapshotProgress)
	}
	request, err := wire.SnapshotProgressFromProto(m)
	if err != nil {
		return nil, err
	}
	token, err := handler.SnapshotProgress(ctx, request)
	if err != nil {
		return nil, err
	}
	return &sinkv1.SnapshotProgressResponse{ProgressToken: token}, nil
}
