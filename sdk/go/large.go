package sink

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// large serves HandleLargeTransaction. It holds the stream's turn from the begin frame
// to the end.
func (s *server) large(stream grpc.ServerStream) error {
	handler, ok := s.sink.(core.LargeTransactionHandler)
	if !ok {
		return unimplemented(core.CapLargeTransaction)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	call := &largeCall{frames: receive(ctx, stream), decoder: wire.NewLargeDecoder(&s.relations), timeout: s.options.frameTimeout}
	defer call.release()
	if err := call.open(ctx); err != nil {
		return err
	}
	now, leave, err := s.streams.write(ctx, &call.begin.Call)
	if err != nil {
		return err
	}
	defer leave()
	call.overtake = now.overtake
	ack, err := handler.HandleLargeTransaction(ctx, call)
	switch {
	case call.failed != nil:
		return call.failed // whatever the handler made of it, this is why
	case err != nil:
		return err
	case !call.decoder.Committed():
		return errNoCommitRead
	}
	return stream.SendMsg(&sinkv1.HandleLargeTransactionResponse{
		CheckpointLsn: wire.OptionalLSN(ack.Checkpoint), Counts: wire.CountsToProto(ack.Counts),
	})
}

// largeCall is the transaction as the handler pulls it.
type largeCall struct {
	frames   *frameReader
	decoder  *wire.LargeDecoder
	begin    core.LargeBegin
	timeout  time.Duration
	overtake <-chan struct{}
	current  *wire.Raw
	failed   error
}

var _ core.LargeTransaction = (*largeCall)(nil)

// Begin is the first frame.
func (c *largeCall) Begin() core.LargeBegin { return c.begin }

func (c *largeCall) open(ctx context.Context) error {
	message, err := c.pull(ctx)
	if err != nil {
		return err
	}
	c.begin, err = c.decoder.Begin(message)
	return err
}

// Next is the following frame. A broken frame, a stream that ends early and a sidecar
// that falls silent are errors, and stay errors.
func (c *largeCall) Next(ctx context.Context) (core.LargeFrame, error) {
	if c.failed != nil {
		return core.LargeFrame{}, c.failed
	}
	if c.decoder.Committed() {
		return core.LargeFrame{}, io.EOF
	}
	for {
		message, err := c.pull(ctx)
		if err != nil {
			return core.LargeFrame{}, c.fail(err)
		}
		frame, shown, err := c.decoder.Next(message)
		if err != nil {
			return core.LargeFrame{}, c.fail(err)
		}
		if !shown {
			continue
		}
		if frame.Commit != nil {
			if err := c.last(ctx, frame.Commit); err != nil {
				return core.LargeFrame{}, c.fail(err)
			}
		}
		return frame, nil
	}
}

// last makes sure that nothing follows the commit frame.
func (c *largeCall) last(ctx context.Context, commit *core.LargeCommit) error {
	if c.begin.Call.Owner == core.OwnerSink {
		switch {
		case commit.Checkpoint == 0:
			return &wire.FieldError{Path: "commit.checkpoint_lsn", Problem: "missing"}
		case commit.Checkpoint < commit.EndLSN:
			return &wire.FieldError{Path: "commit.checkpoint_lsn", Problem: "below end_lsn"}
		}
	}
	_, err := c.pull(ctx)
	switch err {
	case errHalfClosed:
		return nil
	case nil:
		return &wire.FieldError{Path: "frame", Problem: "after the commit frame"}
	}
	return err
}

func (c *largeCall) fail(err error) error {
	c.failed = err
	return err
}

// pull waits for the next message, whose bytes are valid until the next pull.
func (c *largeCall) pull(ctx context.Context) ([]byte, error) {
	c.release()
	var limit <-chan time.Time
	if c.timeout > 0 {
		timer := time.NewTimer(c.timeout)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case got := <-c.frames.next:
		c.current = got.raw
		if got.err != nil {
			return nil, got.err
		}
		return got.raw.Bytes(), nil
	case <-c.overtake:
		// Only the claim itself can say that we are fenced; this one may yet be refused.
		return nil, status.Error(codes.Aborted, "a higher epoch claims this stream")
	case <-limit:
		return nil, context.DeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *largeCall) release() {
	if c.current != nil {
		c.current.Free()
		c.current = nil
	}
}
