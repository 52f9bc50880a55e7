package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Work is what deliver carries to the sink: exactly one of the two.
type Work struct {
	Unit  *core.Unit
	Size  int
	Large *core.LargeBegin
}

// Waits of deliver while the sink has not done the work and says so.
const (
	throttleWaitDefault  = 250 * time.Millisecond
	throttleWaitMax      = time.Minute
	unauthorizedInterval = 30 * time.Second
	unauthorizedMax      = 10 * time.Minute
)

// result is the sink's answer to one Work.
type result struct {
	ack core.Ack
	err error // nil, *core.SinkError or *core.Halt
}

// deliverer owns the sink during a session: one call at a time, and the only place that
// repeats one. It repeats only what the sink certainly has not done.
type deliverer struct {
	handlers handlers
	mode     Mode
	call     core.Call // of this session; Sequence rises
	timeout  func() time.Duration
	notReady func(reason string) // told while the sink keeps us waiting, "" when it is over
	log      *slog.Logger

	work    chan Work
	results chan result
	frames  chan core.LargeFrame
}

// run ends when work is closed or ctx is done.
func (d *deliverer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case w, ok := <-d.work:
			if !ok {
				return
			}
			ack, err := d.deliver(ctx, w)
			select {
			case d.results <- result{ack, err}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// deliver calls until the answer is final: done, refused, too big or unknown.
func (d *deliverer) deliver(ctx context.Context, w Work) (core.Ack, error) {
	began := time.Time{}
	for {
		ack, err := d.once(ctx, w)
		var failed *core.SinkError
		if !errors.As(err, &failed) {
			return ack, err
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
				return core.Ack{}, refused(core.HaltSinkUnauthorized, failed)
			}
			wait = unauthorizedInterval
		default:
			return core.Ack{}, err
		}
		if w.Large != nil {
			return core.Ack{}, err // its pieces are gone; the next session sends it again
		}
		d.notReady(failed.Error())
		if !sleep(ctx, wait) {
			return core.Ack{}, err
		}
		d.notReady("")
	}
}

// once makes one call under its own deadline.
func (d *deliverer) once(ctx context.Context, w Work) (ack core.Ack, err error) {
	d.call.Sequence++
	if w.Large != nil {
		w.Large.Call = d.call
		// No deadline of its own: the client bounds the time without progress.
		ack, err = d.handlers.large.HandleLargeTransaction(ctx, &feed{begin: *w.Large, frames: d.frames})
		return ack, classify("HandleLargeTransaction", err)
	}
	w.Unit.Call = d.call
	callCtx, cancel := context.WithTimeout(ctx, d.timeout())
	defer cancel()
	if d.mode == ModeBatch {
		ack, err = d.handlers.batch.HandleBatch(callCtx, w.Unit)
		return ack, classify("HandleBatch", err)
	}
	ack, err = d.handlers.transaction.HandleTransaction(callCtx, w.Unit)
	return ack, classify("HandleTransaction", err)
}

// feed is the large transaction that the sink pulls; the loop fills frames.
type feed struct {
	begin  core.LargeBegin
	frames <-chan core.LargeFrame
	done   bool
}

// Begin is the opening frame.
func (f *feed) Begin() core.LargeBegin { return f.begin }

// Next waits for the loop to have the next piece.
func (f *feed) Next(ctx context.Context) (core.LargeFrame, error) {
	if f.done {
		return core.LargeFrame{}, io.EOF
	}
	select {
	case frame := <-f.frames:
		f.done = frame.Commit != nil
		return frame, nil
	case <-ctx.Done():
		return core.LargeFrame{}, ctx.Err()
	}
}

// classify makes sure that every failure has a class. Errors of sinks behind the wire
// come classified; an in-process sink may return a Refusal or anything.
func classify(call string, err error) error {
	if err == nil {
		return nil
	}
	var known *core.SinkError
	if errors.As(err, &known) {
		return known
	}
	if halt, ok := core.AsHalt(err); ok {
		return halt
	}
	failed := &core.SinkError{Call: call, Code: "error"}
	var refusal *core.Refusal
	switch {
	case errors.As(err, &refusal):
		failed.Reason, failed.RetryAfter = refusal.Reason, refusal.RetryAfter
		failed.Class, failed.Halt = refusal.Reason.Meaning()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		failed.Class = core.ClassUnknown
	default:
		failed.Code = fmt.Sprintf("%T", err)
	}
	return failed
}

func refused(code core.HaltCode, failed *core.SinkError) error {
	if code == "" {
		code = core.HaltSinkRejected
	}
	return &core.Halt{Code: code, Op: failed.Call, Detail: failed.Error(), Err: failed}
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
