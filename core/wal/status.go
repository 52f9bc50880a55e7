package wal

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// writeTimeout bounds one write to the server, which is 39 bytes and so fails only when
// the other side has stopped reading for long.
const writeTimeout = 10 * time.Second

// status is all that is told to Postgres. This file is the only one that builds a
// status update, and run the only goroutine that writes once the stream has begun.
type status struct {
	mu sync.Mutex
	// floor is the lowest position that may be told: confirmed_flush as read at
	// connect, then whatever was told.
	floor core.LSN
	// at is where the stream began.
	at core.LSN
	// confirmed is the durable position; 0 before the first Confirm.
	confirmed core.LSN
	// first is the first confirmed position. It may lie above what was received: an
	// earlier owner of the slot made it durable.
	first core.LSN
	// received is the highest position that any frame named.
	received core.LSN
	// asked is the WAL end of the last keepalive that wanted a reply. The server may
	// wait until it is told that much.
	asked core.LSN
	// ask: the next status update asks for a reply.
	ask     bool
	started bool
	// told is the highest position that was written. Only failpoints ask for it.
	told core.LSN

	wake     chan struct{}
	requests chan request
}

type request struct {
	finish bool
	done   chan error // buffered
}

func (s *status) init() {
	s.wake = make(chan struct{}, 1)
	s.requests = make(chan request)
}

// position is what may be told now. What is confirmed and not yet received is durable
// all the same, but the server must not be told more than it has sent.
func (s *status) position() core.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = max(s.floor, min(s.confirmed, max(s.received, s.at)))
	return s.floor
}

// confirm checks the ordering and takes the position over.
func (s *status) confirm(lsn core.LSN) (wake bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := func(what string, other core.LSN) (bool, error) {
		h := core.NewHalt(core.HaltInvariant, "confirm", "%s %s", what, other)
		h.LSN = lsn
		return false, h
	}
	switch {
	case lsn == 0:
		return broken("position zero was to be confirmed after", s.confirmed)
	case !s.started:
		return broken("a position was to be confirmed before the stream began; confirmed is", s.confirmed)
	case lsn < s.confirmed:
		return broken("the confirmed position was to fall from", s.confirmed)
	case lsn < s.floor:
		return broken("the confirmed position was to be below what the slot was told,", s.floor)
	case s.confirmed != 0 && lsn > max(s.received, s.at, s.first, s.floor):
		return broken("a position was to be confirmed above the received one,", s.received)
	}
	if s.confirmed == 0 {
		s.first = lsn
	}
	wake = lsn > s.floor && s.asked > s.floor
	s.confirmed = lsn
	return wake, nil
}

// Confirm names the durable position: all that ends at or before it is stored at the
// sink. It never falls and never exceeds what was received, except that the first one
// may be ahead of the stream when an earlier owner of the slot got further. A breach
// ends the connection with halt invariant_broken, see Err.
//
// Postgres is told with the next status update; at once if it waits for a reply.
func (c *Conn) Confirm(lsn core.LSN) {
	wake, err := c.status.confirm(lsn)
	if err != nil {
		_ = c.fail(err)
		return
	}
	if wake {
		c.wakeWriter()
	}
}

// note learns from received frames.
func (c *Conn) note(frames []Frame) {
	var received, asked core.LSN
	reply := false
	for i := range frames {
		f := &frames[i]
		if !f.Keepalive {
			received = max(received, f.Start)
			continue
		}
		received = max(received, f.WALEnd)
		if f.ReplyRequested {
			reply, asked = true, f.WALEnd
		}
	}
	s := &c.status
	s.mu.Lock()
	s.received = max(s.received, received)
	if reply {
		s.asked = asked
	}
	s.mu.Unlock()
	if reply {
		c.wakeWriter()
	}
}

// Ask makes the server tell at once how far it has read, by a keepalive behind everything
// that it sent before.
func (c *Conn) Ask() {
	c.status.mu.Lock()
	c.status.ask = true
	c.status.mu.Unlock()
	c.wakeWriter()
}

// asking takes the wish of Ask.
func (s *status) asking() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ask := s.ask
	s.ask = false
	return ask
}

func (c *Conn) wakeWriter() {
	select {
	case c.status.wake <- struct{}{}:
	default:
	}
}

// Flush tells Postgres the confirmed position now and returns when it is written.
func (c *Conn) Flush(ctx context.Context) error { return c.request(ctx, false) }

func (c *Conn) request(ctx context.Context, finish bool) error {
	c.status.mu.Lock()
	started := c.status.started
	c.status.mu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	if !started {
		return core.NewHalt(core.HaltInvariant, "status", "the stream never began")
	}
	r := request{finish: finish, done: make(chan error, 1)}
	select {
	case c.status.requests <- r:
	case <-c.stopped:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writeStatus is the writing goroutine, from Start to the end.
func (c *Conn) writeStatus() {
	timer := time.NewTimer(c.interval)
	defer timer.Stop()
	for {
		var r request
		select {
		case <-c.stopped:
			return
		case <-timer.C:
		case <-c.status.wake:
		case r = <-c.status.requests:
		}
		err := c.write(r.finish)
		if r.done != nil {
			r.done <- err
		}
		if err != nil {
			c.writeFailed(err)
			return
		}
		if r.finish {
			return
		}
		timer.Reset(c.interval)
	}
}

// write sends one status update, and the end of the copy when it is the last.
func (c *Conn) write(last bool) error {
	if err := c.Err(); err != nil {
		return err
	}
	position := c.status.position()
	higher := failpoint.Enabled && position > c.status.told
	if higher {
		if err := failpoint.Hit(failpoint.StatusBefore); err != nil {
			return &LostError{Op: "status", Reason: err.Error()}
		}
	}
	message := appendStatus(nil, position, time.Now(), c.status.asking())
	if last {
		message = append(message, 'c', 0, 0, 0, 4)
	}
	_ = c.net.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := c.net.Write(message); err != nil {
		return &LostError{Op: "status", Reason: lostReason(err)}
	}
	if higher {
		c.status.told = position
		if err := failpoint.Hit(failpoint.StatusAfter); err != nil {
			return &LostError{Op: "status", Reason: err.Error()}
		}
	}
	return nil
}

// writeFailed gives the reader a moment to find the server's last word, which says
// more than a broken pipe.
func (c *Conn) writeFailed(err error) {
	const moment = time.Second
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-c.stopped:
	case <-timer.C:
		_ = c.fail(err)
	}
}

// appendStatus builds a CopyData message with a standby status update. Write, flush
// and apply are one number: what is not durable was, to Postgres, never written.
func appendStatus(b []byte, position core.LSN, now time.Time, reply bool) []byte {
	const length = 4 + 1 + 4*8 + 1
	b = append(b, 'd')
	b = binary.BigEndian.AppendUint32(b, length)
	b = append(b, 'r')
	for range 3 {
		b = binary.BigEndian.AppendUint64(b, uint64(position))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(now.Sub(postgresEpoch).Microseconds()))
	if reply {
		return append(b, 1)
	}
	return append(b, 0)
}
