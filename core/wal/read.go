package wal

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// longAgo as a deadline makes a blocked read or write return at once.
var longAgo = time.Unix(1, 0)

// Read blocks until at least one frame is there, then adds all complete frames that
// were received already. A frame that is cut stays for the next Read. After an error
// the connection is of no more use, except when the error is ctx's own: then nothing
// is lost and Read may be called again.
func (c *Conn) Read(ctx context.Context, b *Batch) error {
	b.Frames, b.large = b.Frames[:0], nil
	select {
	case <-c.reading:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { c.reading <- struct{}{} }()
	if err := c.readable(ctx); err != nil {
		return err
	}
	for len(b.Frames) == 0 {
		if c.readErr == nil {
			if err := c.fill(ctx, b); err != nil {
				return err
			}
			continue
		}
		return c.fail(c.readErr)
	}
	c.note(b.Frames)
	return nil
}

func (c *Conn) readable(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return err
	}
	if c.net == nil {
		return core.NewHalt(core.HaltInvariant, phaseStream.String(), "a read before the stream began")
	}
	return context.Cause(ctx)
}

// fill reads once, or until one large frame is complete, and parses what is there.
func (c *Conn) fill(ctx context.Context, b *Batch) error {
	if b.buf == nil {
		b.buf = make([]byte, bufferSize)
	}
	size, err := messageSize(c.rest)
	if err != nil {
		return c.fail(err)
	}
	if size > len(b.buf) {
		return c.fillLarge(ctx, b, size)
	}
	have := copy(b.buf, c.rest)
	c.rest = b.buf[:have]
	if size == 0 || size > have { // what came with the answer to START may be whole
		n, err := c.readSome(ctx, b.buf[have:])
		c.rest = b.buf[:have+n]
		if err != nil {
			return err
		}
	}
	used, err := c.take(b, c.rest)
	c.rest, c.readErr = c.rest[used:], err
	if c.overTLS && err == nil && len(b.Frames) > 0 {
		c.drain(b)
	}
	return nil
}

// fillLarge completes one frame that is larger than a batch's own memory. The memory
// is made once, also when ctx ends in between, and goes when the batch is used again.
func (c *Conn) fillLarge(ctx context.Context, b *Batch, size int) error {
	if !c.big {
		c.rest, c.big = append(make([]byte, 0, size), c.rest...), true
	}
	for len(c.rest) < size {
		have := len(c.rest)
		n, err := c.readSome(ctx, c.rest[have:size])
		c.rest = c.rest[:have+n]
		if err != nil {
			return err
		}
	}
	b.large, c.rest, c.big = c.rest, nil, false
	_, c.readErr = c.take(b, b.large)
	return nil
}

// drain adds what TLS has received already: it hands out one record at a time.
func (c *Conn) drain(b *Batch) {
	c.socket.dry = true
	defer func() { c.socket.dry = false }()
	for c.readErr == nil {
		end := cap(b.buf) - cap(c.rest) + len(c.rest)
		if end == len(b.buf) {
			return
		}
		n, err := c.net.Read(b.buf[end:])
		if n == 0 || err != nil && !isTimeout(err) {
			return // a real error comes again at the next read that may block
		}
		c.rest = c.rest[:len(c.rest)+n]
		used, err := c.take(b, c.rest)
		c.rest, c.readErr = c.rest[used:], err
	}
}

// readSome reads at least one byte, unless ctx ends or the connection fails.
func (c *Conn) readSome(ctx context.Context, p []byte) (int, error) {
	for {
		c.watched.on(ctx, c.net, c.stopped)
		n, err := c.net.Read(p)
		if n > 0 {
			return n, nil
		}
		switch {
		case err == nil:
		case !isTimeout(err):
			return 0, c.fail(&LostError{Op: phaseStream.String(), Reason: lostReason(err)})
		case c.Err() != nil:
			return 0, c.Err()
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		}
	}
}

// isTimeout reports that our own deadline ended a read. A peer that the kernel gave up
// (ETIMEDOUT) calls itself a timeout too, and is a lost connection.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// watch lets a context end a blocked read, by a read deadline in the past. It stays on
// the context it has, since setting it up for each read would cost more than the read.
type watch struct {
	ctx  context.Context
	stop func() bool
	done chan struct{}
}

// on makes sure that ctx is watched and that no deadline of an earlier one is left.
func (w *watch) on(ctx context.Context, conn net.Conn, stopped <-chan struct{}) {
	if w.ctx == ctx && ctx.Err() == nil {
		return
	}
	w.off()
	_ = conn.SetReadDeadline(time.Time{})
	done := make(chan struct{})
	w.ctx, w.done = ctx, done
	w.stop = context.AfterFunc(ctx, func() {
		_ = conn.SetReadDeadline(longAgo)
		close(done)
	})
	select {
	case <-stopped: // fail came before the deadline was taken back
		_ = conn.SetReadDeadline(longAgo)
	default:
	}
}

// off ends the watch; afterwards its context sets no deadline any more.
func (w *watch) off() {
	if w.ctx == nil {
		return
	}
	if !w.stop() {
		<-w.done
	}
	w.ctx = nil
}
