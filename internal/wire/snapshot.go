package wire

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// SnapshotCompleteToProto is the end of an initial copy.
func SnapshotCompleteToProto(u *core.SnapshotCompleteUnit) *sinkv1.HandleSnapshotCompleteRequest {
	completion := &sinkv1.SnapshotCompletion{RunId: u.RunID[:], Generation: u.Generation}
	for _, relation := range u.Relations {
		completion.Relations = append(completion.Relations, relationToProto(relation))
	}
	return &sinkv1.HandleSnapshotCompleteRequest{
		Context: callToProto(&u.Call), ExpectedCheckpoint: optionalLSN(u.Expected), CheckpointLsn: optionalLSN(u.Checkpoint),
		Completion: completion, ResumeState: u.ResumeState,
	}
}

// SnapshotCompleteFromProto reads it. The error is a *FieldError.
func SnapshotCompleteFromProto(m *sinkv1.HandleSnapshotCompleteRequest) (*core.SnapshotCompleteUnit, error) {
	u := &core.SnapshotCompleteUnit{ResumeState: m.ResumeState}
	if err := readHead(&u.Call, &u.Expected, m.GetContext(), m.ExpectedCheckpoint); err != nil {
		return nil, err
	}
	checkpoint, err := lsnFromProto("checkpoint_lsn", m.CheckpointLsn)
	if err != nil {
		return nil, err
	}
	u.Checkpoint = checkpoint
	completion := m.GetCompletion()
	switch {
	case completion == nil:
		return nil, broken("completion", problemMissing)
	case len(completion.GetRunId()) != len(u.RunID):
		return nil, broken("completion.run_id", "not %d bytes", len(u.RunID))
	case completion.GetGeneration() == 0:
		return nil, broken("completion.generation", problemMissing)
	case len(completion.GetRelations()) > core.RelationsMax:
		return nil, broken("completion.relations", "more than %d", core.RelationsMax)
	}
	u.RunID, u.Generation = [16]byte(completion.GetRunId()), completion.GetGeneration()
	for i, told := range completion.GetRelations() {
		relation, err := relationFromProto(told)
		if err != nil {
			return nil, err.underIndex("completion.relations", i)
		}
		u.Relations = append(u.Relations, relation)
	}
	return u, nil
}

// SnapshotProgressToProto asks for a token.
func SnapshotProgressToProto(r core.SnapshotProgressRequest) *sinkv1.SnapshotProgressRequest {
	return &sinkv1.SnapshotProgressRequest{StreamId: r.StreamID, Source: sourceToProto(r.Source)}
}

// SnapshotProgressFromProto reads the question. The error is a *FieldError.
func SnapshotProgressFromProto(m *sinkv1.SnapshotProgressRequest) (core.SnapshotProgressRequest, error) {
	r := core.SnapshotProgressRequest{StreamID: m.GetStreamId(), Source: sourceFromProto(m.GetSource())}
	return r, checkSource(m.GetStreamId(), m.GetSource())
}

// ProgressTokenFromProto reads the answer: nil is "never any", and an empty token is a
// token. One that no sidecar can have sent is a *FieldError.
func ProgressTokenFromProto(m *sinkv1.SnapshotProgressResponse) ([]byte, error) {
	if len(m.GetProgressToken()) > core.ProgressTokenMax {
		return nil, broken("progress_token", problemTooLong, core.ProgressTokenMax)
	}
	return m.ProgressToken, nil
}
