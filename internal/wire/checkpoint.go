package wire

import (
	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// resumeStateMax bounds resume_state.
const resumeStateMax = 1 << 20

// lineageBytesMax bounds the lineage.
const lineageBytesMax = 64

// CheckpointRequestToProto asks for a position.
func CheckpointRequestToProto(r core.CheckpointRequest) *sinkv1.CheckpointRequest {
	m := &sinkv1.CheckpointRequest{StreamId: r.StreamID, Source: sourceToProto(r.Source)}
	if r.Claim != nil {
		m.Claim = &sinkv1.CheckpointClaim{Epoch: r.Claim.Epoch, SenderId: r.Claim.SenderID[:]}
	}
	return m
}

// CheckpointRequestFromProto reads the question. The error is a *FieldError.
func CheckpointRequestFromProto(m *sinkv1.CheckpointRequest) (core.CheckpointRequest, error) {
	r := core.CheckpointRequest{StreamID: m.GetStreamId(), Source: sourceFromProto(m.GetSource())}
	if m.GetStreamId() == "" {
		return r, broken("stream_id", problemMissing)
	}
	if m.GetSource() == nil {
		return r, broken("source", problemMissing)
	}
	if claim := m.GetClaim(); claim != nil {
		if claim.GetEpoch() == 0 {
			return r, broken("claim.epoch", problemMissing)
		}
		if len(claim.GetSenderId()) != senderBytes {
			return r, broken("claim.sender_id", "not %d bytes", senderBytes)
		}
		r.Claim = &core.Claim{Epoch: claim.GetEpoch(), SenderID: [16]byte(claim.GetSenderId())}
	}
	return r, nil
}

// CheckpointToProto is what a sink stores for a stream.
func CheckpointToProto(c core.Checkpoint) *sinkv1.CheckpointResponse {
	return &sinkv1.CheckpointResponse{
		Position: optionalLSN(c.Position), Epoch: c.Epoch, Lineage: c.Lineage, ResumeState: c.ResumeState,
	}
}

// CheckpointFromProto reads it. A position that is there but 0 breaks the contract.
func CheckpointFromProto(m *sinkv1.CheckpointResponse) (core.Checkpoint, error) {
	position, err := lsnFromProto("position", m.Position)
	switch {
	case err != nil:
		return core.Checkpoint{}, err
	case len(m.GetLineage()) > lineageBytesMax:
		return core.Checkpoint{}, broken("lineage", "longer than %d bytes", lineageBytesMax)
	case len(m.GetResumeState()) > resumeStateMax:
		return core.Checkpoint{}, broken("resume_state", "longer than %d bytes", resumeStateMax)
	}
	return core.Checkpoint{Position: position, Epoch: m.GetEpoch(), Lineage: m.GetLineage(), ResumeState: m.ResumeState}, nil
}

func sourceToProto(s core.SourceIdentity) *sinkv1.SourceIdentity {
	return &sinkv1.SourceIdentity{
		SystemIdentifier: s.SystemIdentifier, Database: s.Database, Slot: s.Slot, Timeline: s.Timeline,
	}
}

func sourceFromProto(m *sinkv1.SourceIdentity) core.SourceIdentity {
	return core.SourceIdentity{
		SystemIdentifier: m.GetSystemIdentifier(), Database: m.GetDatabase(), Slot: m.GetSlot(), Timeline: m.GetTimeline(),
	}
}

func optionalLSN(lsn core.LSN) *uint64 {
	if lsn == 0 {
		return nil
	}
	return proto.Uint64(uint64(lsn))
}

func lsnFromProto(path string, lsn *uint64) (core.LSN, error) {
	if lsn != nil && *lsn == 0 {
		return 0, broken(path, problemZero)
	}
	if lsn == nil {
		return 0, nil
	}
	return core.LSN(*lsn), nil
}

// CountsToProto is what a unit did; nothing where nothing was counted.
func CountsToProto(c core.Counts) *sinkv1.Counts {
	if c == (core.Counts{}) {
		return nil
	}
	return &sinkv1.Counts{
		Inserted: c.Inserted, Updated: c.Updated, Deleted: c.Deleted, Truncated: c.Truncated,
		ReplayedTransactions: c.ReplayedTransactions,
	}
}

// AckFromProto reads a writing call's answer: its checkpoint_lsn and its counts.
func AckFromProto(checkpoint *uint64, counts *sinkv1.Counts) (core.Ack, error) {
	position, err := lsnFromProto("checkpoint_lsn", checkpoint)
	if err != nil {
		return core.Ack{}, err
	}
	if counts == nil {
		return core.Ack{Checkpoint: position}, nil
	}
	return core.Ack{Checkpoint: position, Counts: core.Counts{
		Inserted: counts.Inserted, Updated: counts.Updated, Deleted: counts.Deleted, Truncated: counts.Truncated,
		ReplayedTransactions: counts.ReplayedTransactions,
	}}, nil
}

// OptionalLSN is a position on the wire: 0 is left out.
func OptionalLSN(lsn core.LSN) *uint64 { return optionalLSN(lsn) }
