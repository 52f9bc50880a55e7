package sink

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
)

var (
	// errHalfClosed: the sidecar has sent its last frame.
	errHalfClosed = error(&wire.FieldError{Path: "frame", Problem: "stream ended without a commit frame"})
	// errNoCommitRead: a handler said that a transaction is durable without having read
	// its commit frame. It cannot be: positions come with that frame.
	errNoCommitRead = errors.New("handler returned before it read the commit frame")
)

// frameReader receives one frame ahead, so that waiting for it can be given up: gRPC's
// own receive cannot be interrupted but by the end of the call.
type frameReader struct {
	next chan received
}

type received struct {
	raw *wire.Raw
	err error
}

func receive(ctx context.Context, stream grpc.ServerStream) *frameReader {
	r := &frameReader{next: make(chan received)}
	go func() {
		for {
			got := received{raw: new(wire.Raw)}
			got.err = ended(ctx, stream.RecvMsg(got.raw))
			select {
			case r.next <- got:
			case <-ctx.Done():
				got.raw.Free()
				return
			}
			if got.err != nil {
				return
			}
		}
	}()
	return r
}

// ended is why no frame follows. The end of the call shows at its context and in gRPC's
// receive, whichever is looked at first: a handler sees the context's error in both cases.
func ended(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case err == io.EOF:
		return errHalfClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	switch status.Code(err) {
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	}
	return err
}
