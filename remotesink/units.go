package remotesink

import (
	"context"

	"google.golang.org/grpc/codes"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// HandleTransaction delivers one transaction, or an idle step.
func (s *Sink) HandleTransaction(ctx context.Context, unit *core.Unit) (core.Ack, error) {
	const call = "HandleTransaction"
	var response sinkv1.HandleTransactionResponse
	if err := s.deliver(ctx, call, unit, (*wire.Encoder).Transaction, &response); err != nil {
		return core.Ack{}, err
	}
	return ackOf(call, response.CheckpointLsn, &response)
}

// HandleBatch delivers whole transactions, or an idle step.
func (s *Sink) HandleBatch(ctx context.Context, unit *core.Unit) (core.Ack, error) {
	const call = "HandleBatch"
	var response sinkv1.HandleBatchResponse
	if err := s.deliver(ctx, call, unit, (*wire.Encoder).Batch, &response); err != nil {
		return core.Ack{}, err
	}
	return ackOf(call, response.CheckpointLsn, &response)
}

// HandleSnapshot delivers rows of a snapshot, or flags and a token alone.
func (s *Sink) HandleSnapshot(ctx context.Context, unit *core.SnapshotUnit) (core.Counts, error) {
	const call = "HandleSnapshot"
	var response sinkv1.HandleSnapshotResponse
	encode := func(e *wire.Encoder) (*wire.Raw, error) { return e.Snapshot(unit) }
	if err := s.send(ctx, call, encode, &response); err != nil {
		return core.Counts{}, err
	}
	ack, err := ackOf(call, nil, &response)
	return ack.Counts, err
}

type encode func(*wire.Encoder, *core.Unit) (*wire.Raw, error)

func (s *Sink) deliver(ctx context.Context, call string, unit *core.Unit, encode encode, response any) error {
	return s.send(ctx, call, func(e *wire.Encoder) (*wire.Raw, error) { return encode(e, unit) }, response)
}

// send encodes a unit, which is not looked at any more afterwards, and sends it.
func (s *Sink) send(ctx context.Context, call string, encode func(*wire.Encoder) (*wire.Raw, error), response any) error {
	s.mu.Lock()
	request, err := encode(&s.encoder)
	s.mu.Unlock()
	if err != nil {
		return notEncoded(call, err)
	}
	defer request.Free()
	if request.Len() > core.ReceiveBytesMax {
		return notEncoded(call, wire.ErrTooLarge)
	}
	return s.invoke(ctx, call, request, response)
}

// notEncoded is the failure of a unit that was never sent. One with too many relations,
// or above what either side receives, may fit in smaller pieces; a name that is not
// UTF-8 has no form on the wire.
func notEncoded(call string, err error) *core.SinkError {
	failure := &core.SinkError{Call: call, NeverSent: true, Detail: err.Error()}
	switch err {
	case wire.ErrTooManyRelations, wire.ErrTooLarge:
		failure.Class, failure.Code = core.ClassTooBig, wire.CodeName(codes.ResourceExhausted)
	case wire.ErrNotUTF8:
		failure.Class, failure.Halt = core.ClassRefused, core.HaltValueUnrepresentable
		failure.Code, failure.Reason = wire.CodeName(codes.OutOfRange), core.ReasonValueUnrepresentable
	default:
		failure.Class, failure.Halt = core.ClassRefused, core.HaltInvariant
		failure.Code = wire.CodeName(codes.InvalidArgument)
	}
	return failure
}
