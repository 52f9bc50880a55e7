package pipeline

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// Work is what deliver carries to the sink: exactly one of the five.
type Work struct {
	Snapshot *core.SnapshotUnit
	Unit     *core.Unit
	// Border is the resume state of the first n transactions of Unit, for a unit that ends
	// in the middle; only while Unit is in flight.
	Border  func(n int) []byte
	Large   *core.LargeBegin
	Message *core.MessageUnit
	Schema  *core.SchemaChangeUnit
}

// Waits of deliver while the sink has not done the work and says so.
const (
	throttleWaitDefault  = 250 * time.Millisecond
	throttleWaitMax      = time.Minute
	unauthorizedInterval = 30 * time.Second
	unauthorizedMax      = 10 * time.Minute
)

// result is the answer to one Work.
type result struct {
	ack core.Ack
	err error // nil, *core.SinkError, *core.Halt or *again
}

// courier brings one kind of work to where it becomes durable, position included. There
// is one for sinks that own their checkpoint and one for a store of ours.
type courier interface {
	// unit takes the resume states of the borders inside u too, for who can end there.
	unit(ctx context.Context, u *core.Unit, border func(n int) []byte) (core.Ack, error)
	large(ctx context.Context, f *feed) (core.Ack, error)
	message(ctx context.Context, u *core.MessageUnit) (core.Ack, error)
	schemaChange(ctx context.Context, u *core.SchemaChangeUnit) error
	copier
}

// copier brings rows that were there before the stream, and the end of an initial copy.
type copier interface {
	snapshot(ctx context.Context, u *core.SnapshotUnit) (core.Counts, error)
	complete(ctx context.Context, u *core.SnapshotCompleteUnit) (core.Ack, error)
	// progress makes a unit of an incremental run durable with its token.
	progress(ctx context.Context, u *core.SnapshotUnit) error
}

// deliverer is the goroutine that owns the sink during a session: one call at a time.
type deliverer struct {
	courier courier
	work    chan Work
	results chan result
	frames  chan core.LargeFrame
}

func newDeliverer(c courier) *deliverer {
	return &deliverer{courier: c, work: make(chan Work, 1), results: make(chan result, 1), frames: make(chan core.LargeFrame)}
}

// run ends when ctx is done.
func (d *deliverer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-d.work:
			ack, err := d.deliver(ctx, w)
			if err == nil {
				err = injected(failpoint.Hit(failpoint.DeliverAfter))
			}
			select {
			case d.results <- result{ack, err}:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (d *deliverer) deliver(ctx context.Context, w Work) (core.Ack, error) {
	switch {
	case w.Snapshot != nil:
		return core.Ack{}, d.courier.progress(ctx, w.Snapshot)
	case w.Large != nil:
		return d.courier.large(ctx, &feed{begin: *w.Large, frames: d.frames})
	case w.Message != nil:
		return d.courier.message(ctx, w.Message)
	case w.Schema != nil:
		return core.Ack{}, d.courier.schemaChange(ctx, w.Schema)
	}
	return d.courier.unit(ctx, w.Unit, w.Border)
}

// feed is the large transaction that the sink pulls; the loop fills frames.
type feed struct {
	begin  core.LargeBegin
	frames <-chan core.LargeFrame
	taken  bool              // a piece is gone: the call cannot be repeated
	commit *core.LargeCommit // once the sink has taken it
}

// Begin is the opening frame.
func (f *feed) Begin() core.LargeBegin { return f.begin }

// Next waits for the loop to have the next piece.
func (f *feed) Next(ctx context.Context) (core.LargeFrame, error) {
	if f.commit != nil {
		return core.LargeFrame{}, io.EOF
	}
	select {
	case frame := <-f.frames:
		f.taken, f.commit = true, frame.Commit
		return frame, nil
	case <-ctx.Done():
		return core.LargeFrame{}, ctx.Err()
	}
}

// caller makes calls to the sink under the context of this session, each with its own
// deadline and a higher sequence, and repeats only what the sink certainly has not done.
type caller struct {
	call     core.Call
	sequence *uint64 // of this incarnation; rises over all sessions
	timeout  func() time.Duration
	notReady func(reason string) // told while the sink keeps us waiting, "" when it is over
}

// next is the context of the next call.
func (c *caller) next() core.Call {
	*c.sequence++
	c.call.Sequence = *c.sequence
	return c.call
}

// patiently repeats a call that was not done, as the sink asks, until it has another
// answer. Each try has its own deadline.
func (c *caller) patiently(ctx context.Context, once func(context.Context) error) error {
	return c.while(ctx, func() bool { return true }, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.timeout())
		defer cancel()
		return once(ctx)
	})
}

// while is patiently for calls that can be repeated only as long as again says so.
func (c *caller) while(ctx context.Context, again func() bool, once func(context.Context) error) error {
	began := time.Time{}
	once = withFailpoints(once)
	for {
		err := once(ctx)
		var failed *core.SinkError
		if !errors.As(err, &failed) {
			c.notReady("")
			return err
		}
		if !again() {
			return err
		}
		var wait time.Duration
		switch failed.Class {
		case core.ClassThrottled:
			wait = min(max(failed.RetryAfter, throttleWaitDefault), throttleWaitMax)
		case core.ClassUnauthorized:
			if began.IsZero() {
				began = time.Now()
			}
			if time.Since(began) >= unauthorizedMax {
				return refused(core.HaltSinkUnauthorized, failed)
			}
			wait = unauthorizedInterval
		default:
			return err
		}
		c.notReady(failed.Error())
		if !sleep(ctx, wait) {
			return err
		}
	}
}

// sleep waits, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
