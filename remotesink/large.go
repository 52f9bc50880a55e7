package remotesink

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

const callLarge = "HandleLargeTransaction"

// largeStream describes the call to gRPC: many messages there, one back.
var largeStream = &grpc.StreamDesc{StreamName: callLarge, ClientStreams: true}

// HandleLargeTransaction pulls the transaction and sends it frame by frame. The call
// may last as long as it moves: it ends when one frame could not be sent within the
// progress timeout, or when the commit was not answered within the longest duration of
// a call. While it waits for the source it listens for an early answer, which ends the
// call. An error of the source is returned as it is; the sink saw no commit frame then.
func (s *Sink) HandleLargeTransaction(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	limits := s.limits
	s.mu.Unlock()
	call := &largeCall{
		large: large, limits: limits, encoder: wire.NewLargeEncoder(limits.PreferredBytes),
		cancel: cancel, progress: s.options.ProgressTimeout, answered: make(chan struct{}),
	}
	if err := call.open(ctx, s.conn); err != nil {
		return core.Ack{}, err
	}
	pulling, stopPulling := context.WithCancel(ctx)
	go call.listen(stopPulling)
	if err := call.send(pulling); err != nil {
		cancel()
		<-call.answered
		return core.Ack{}, err
	}
	call.awaitAnswer()
	return call.result()
}

// largeCall is one client stream. The sending goroutine and the listening one share
// nothing but what is set before answered is closed.
type largeCall struct {
	large     core.LargeTransaction
	limits    core.SinkLimits
	encoder   *wire.LargeEncoder
	stream    grpc.ClientStream
	sink      peer.Peer
	cancel    context.CancelFunc
	progress  time.Duration
	stalled   atomic.Bool
	committed bool

	answered chan struct{}
	answer   error
	response sinkv1.HandleLargeTransactionResponse
}

// errAnswered ends the sending since the sink has answered already.
var errAnswered = errors.New("the sink has answered")

func (c *largeCall) open(ctx context.Context, conn *grpc.ClientConn) error {
	stop := c.watch(c.progress)
	defer stop()
	stream, err := conn.NewStream(ctx, largeStream, method(callLarge), grpc.Peer(&c.sink))
	if err != nil {
		return c.classify(err, c.sink.Addr == nil)
	}
	c.stream = stream
	return nil
}

// listen waits for the sink's answer, early or not.
func (c *largeCall) listen(stopPulling context.CancelFunc) {
	defer close(c.answered)
	defer stopPulling()
	c.answer = c.stream.RecvMsg(&c.response)
}

// watch cancels the call when its caller does not stop it in time.
func (c *largeCall) watch(limit time.Duration) (stop func() bool) {
	return time.AfterFunc(limit, func() {
		c.stalled.Store(true)
		c.cancel()
	}).Stop
}

// send sends everything. It returns nil when the sink's answer is what counts, and
// otherwise why the source or the encoding failed.
func (c *largeCall) send(pulling context.Context) error {
	err := c.sendAll(pulling)
	if err == errAnswered || pulling.Err() != nil {
		return nil
	}
	return err
}

func (c *largeCall) sendAll(pulling context.Context) error {
	if err := c.sendFrame(c.encoder.Begin(c.large.Begin())); err != nil {
		return err
	}
	for {
		frame, err := c.large.Next(pulling)
		if err == io.EOF {
			return errors.New("large transaction ended without a commit frame")
		}
		if err != nil {
			return err
		}
		switch {
		case frame.Commit != nil:
			c.committed = true
			if err := c.sendFrame(c.encoder.Commit(frame.Commit)); err != nil {
				return err
			}
			return c.stream.CloseSend()
		case frame.SchemaChange != nil:
			err = c.sendFrame(c.encoder.SchemaChange(frame.SchemaChange))
		default:
			err = c.sendChanges(frame)
		}
		if err != nil {
			return err
		}
	}
}

func (c *largeCall) sendChanges(frame core.LargeFrame) error {
	c.encoder.Changes(frame.Changes, frame.FirstChangeIndex)
	for {
		raw, err := c.encoder.Frame()
		if raw == nil && err == nil {
			return nil
		}
		if err := c.sendFrame(raw, err); err != nil {
			return err
		}
	}
}

// sendFrame sends one frame within the progress timeout.
func (c *largeCall) sendFrame(raw *wire.Raw, err error) error {
	if err != nil {
		return notEncoded(callLarge, err)
	}
	defer raw.Free()
	if raw.Len() > c.limits.RequestBytes {
		return notEncoded(callLarge, wire.ErrTooLarge)
	}
	stop := c.watch(c.progress)
	defer stop()
	if err := c.stream.SendMsg(raw); err != nil {
		// Whatever ended the stream, its status is what listen gets.
		return errAnswered
	}
	return nil
}

// awaitAnswer waits for the answer to the commit frame.
func (c *largeCall) awaitAnswer() {
	stop := c.watch(max(c.limits.CallDuration, c.progress))
	defer stop()
	<-c.answered
}

func (c *largeCall) result() (core.Ack, error) {
	if c.answer != nil {
		return core.Ack{}, c.classify(c.answer, false)
	}
	if !c.committed {
		return core.Ack{}, wire.ContractBreach(callLarge, errors.New("answered before the commit frame"))
	}
	return ackOf(callLarge, c.response.CheckpointLsn, &c.response)
}

// classify names a call that we ended ourselves for standing still by what it is.
func (c *largeCall) classify(err error, neverSent bool) error {
	if c.stalled.Load() {
		err = context.DeadlineExceeded
	}
	if c.stream == nil {
		return wire.SinkErrorOf(callLarge, err, nil, neverSent)
	}
	return wire.SinkErrorOf(callLarge, err, c.stream.Trailer(), neverSent)
}
