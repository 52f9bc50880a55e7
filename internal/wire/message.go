package wire

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// MessageUnitToProto is a standalone message.
func MessageUnitToProto(u *core.MessageUnit) *sinkv1.HandleMessageRequest {
	return &sinkv1.HandleMessageRequest{
		Context: callToProto(&u.Call), ExpectedCheckpoint: optionalLSN(u.Expected), CheckpointLsn: optionalLSN(u.Checkpoint),
		Message: &sinkv1.LogicalMessage{
			Transactional: u.Message.Transactional, Lsn: uint64(u.Message.LSN),
			Prefix: u.Message.Prefix, Content: u.Message.Content,
		},
		ResumeState: u.ResumeState,
	}
}

// MessageUnitFromProto reads it. The error is a *FieldError.
func MessageUnitFromProto(m *sinkv1.HandleMessageRequest) (*core.MessageUnit, error) {
	u := &core.MessageUnit{ResumeState: m.ResumeState}
	if err := readHead(&u.Call, &u.Expected, m.GetContext(), m.ExpectedCheckpoint); err != nil {
		return nil, err
	}
	checkpoint, err := lsnFromProto("checkpoint_lsn", m.CheckpointLsn)
	if err != nil {
		return nil, err
	}
	u.Checkpoint = checkpoint
	switch {
	case m.GetMessage() == nil:
		return nil, broken("message", problemMissing)
	case m.GetMessage().GetLsn() == 0:
		return nil, broken("message.lsn", problemMissing)
	case m.GetMessage().GetTransactional():
		return nil, broken("message.transactional", "true outside of a transaction")
	}
	u.Message = core.Message{
		LSN: core.LSN(m.GetMessage().GetLsn()), Prefix: m.GetMessage().GetPrefix(), Content: m.GetMessage().GetContent(),
	}
	return u, nil
}

// readHead reads what every writing request begins with.
func readHead(call *core.Call, expected *core.LSN, context *sinkv1.StreamContext, lsn *uint64) error {
	if err := callFromProto(call, context); err != nil {
		return err.under("context")
	}
	position, err := lsnFromProto("expected_checkpoint", lsn)
	*expected = position
	return err
}
