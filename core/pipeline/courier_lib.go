package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// libCourier delivers to a sink that keeps no checkpoint: one transaction a call, and
// after the last OK of a unit one guarded write moves the row. The row decides every
// doubt; a repeat goes out with a higher sequence, so that a late first attempt is
// refused by the sink's memory.
type libCourier struct {
	caller
	pipeline *Pipeline
	handlers handlers
	store    checkpoint.Store
	// storeAway is told while the store keeps us waiting, "" when it is over.
	storeAway func(reason string)
	doubt     doubt
	// repairs: rows that a second delivery may leave incomplete are read again.
	repairs bool
}

func newLibCourier(p *Pipeline, base caller) *libCourier {
	c := &libCourier{
		caller: base, pipeline: p, handlers: p.handlers, store: p.options.Store,
		storeAway: p.notReady(StateStoreAway), doubt: doubt{timeout: p.doubt.timeout},
	}
	c.call.Owner = core.OwnerSidecar
	c.timeout = c.doubt.deadline
	return c
}

// introduce learns the sink's instance and only then reads the row: who reads the row as
// its own after learning the instance knows that no successor claimed before that
// instance existed.
func (c *libCourier) introduce(ctx context.Context, at core.LSN) error {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	caps, err := c.handlers.sink.Capabilities(ask)
	if err != nil {
		return classify("GetCapabilities", err)
	}
	if err := c.sameSink(caps); err != nil {
		return err
	}
	c.call.InstanceID = caps.InstanceID
	r, err := c.ours(ctx)
	if err == nil && r.Position != at {
		err = regress(r.Position, at)
	}
	return err
}

// sameSink refuses another sink behind the address, in the middle of a session too.
func (c *libCourier) sameSink(now core.Capabilities) error {
	p := c.pipeline
	if !p.options.AcceptUnfenced && !now.Fences(core.FencingInstance) {
		return core.NewHalt(core.HaltCapabilityLost, "GetCapabilities", "the sink no longer fences by instance")
	}
	return sameSink(p.caps, now, inUse(p.mode, p.options, p.caps))
}

func regress(found, want core.LSN) error {
	return core.NewHalt(core.HaltStoreRegress, "store", "the row stands at %s, this sidecar left it at %s", found, want)
}

// ours reads the row until the store answers, and stops for good if another epoch rules.
func (c *libCourier) ours(ctx context.Context) (r checkpoint.Record, err error) {
	err = c.steadily(ctx, func() (err error) {
		var found bool
		r, found, err = c.store.Read(ctx, c.call.StreamID)
		switch {
		case err != nil:
			return err
		case !found:
			return core.NewHalt(core.HaltStoreRegress, "store", "the checkpoint row is gone")
		case r.Epoch < c.call.Epoch:
			return core.NewHalt(core.HaltStoreRegress, "store", "the row's epoch went back to %d from %d", r.Epoch, c.call.Epoch)
		case r.Epoch > c.call.Epoch || r.Sender != c.call.SenderID:
			return core.NewHalt(core.HaltFenced, "store", "another epoch rules this stream")
		}
		return nil
	})
	return r, err
}

// steadily tries a store operation again while the store is away, paced and bounded.
func (c *libCourier) steadily(ctx context.Context, operation func() error) error {
	began, pace := time.Now(), newPace()
	for {
		err := operation()
		var away *checkpoint.UnavailableError
		if !errors.As(err, &away) {
			c.storeAway("")
			return err
		}
		if time.Since(began) >= c.pipeline.options.StoreWait {
			return unavailable(away)
		}
		c.storeAway(away.Error())
		if !sleep(ctx, pace.NextBackOff()) {
			return &again{StateStoreAway, 0, away}
		}
	}
}

func newPace() *backoff.ExponentialBackOff {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = reconnectMin, reconnectMax
	return pace
}

func (c *libCourier) unit(ctx context.Context, u *core.Unit, border func(int) []byte) (core.Ack, error) {
	for i := range u.Transactions {
		if i > 0 && c.pipeline.draining() {
			return core.Ack{}, c.keep(ctx, u, i, border, &partly{at: u.Transactions[i-1].EndLSN})
		}
		tx := u.Transactions[i : i+1]
		one := core.Unit{Expected: u.Expected, Checkpoint: tx[0].EndLSN, Transactions: tx}
		err := c.surely(ctx, u.Expected, c.repeats(&tx[0]), func(ctx context.Context) error {
			one.Call = c.next()
			_, err := c.handlers.transaction.HandleTransaction(ctx, &one)
			return classify("HandleTransaction", err)
		})
		if err != nil {
			return core.Ack{}, c.keep(ctx, u, i, border, err)
		}
	}
	return c.advance(ctx, u.Expected, u.Checkpoint, u.ResumeState)
}

// keep stores what the first n transactions of a unit have reached before the unit ends
// with err, so that they are not sent again; with the shapes that they have shown, which
// no later unit shows for the first time.
func (c *libCourier) keep(ctx context.Context, u *core.Unit, n int, border func(int) []byte, err error) error {
	failed, ok := answer(err)
	if n == 0 || ctx.Err() != nil || ok && failed.Class == core.ClassFenced {
		return err
	}
	if _, err := c.advance(ctx, u.Expected, u.Transactions[n-1].EndLSN, border(n)); err != nil {
		return err
	}
	if ok && failed.Class == core.ClassTooBig {
		// A smaller unit must not begin with what is done.
		return &again{StateStarting, reconnectMin, err}
	}
	return err
}

// partly is the end of a unit in the middle, by a drain: what lies up to at is durable.
type partly struct{ at core.LSN }

// Error says so.
func (p *partly) Error() string { return "the unit was ended by a drain at " + p.at.String() }

func isPartly(err error) (*partly, bool) {
	var p *partly
	ok := errors.As(err, &p)
	return p, ok
}

func (c *libCourier) message(ctx context.Context, u *core.MessageUnit) (core.Ack, error) {
	err := c.surely(ctx, u.Expected, true, func(ctx context.Context) error {
		u.Call = c.next()
		_, err := c.handlers.message.HandleMessage(ctx, u)
		return classify("HandleMessage", err)
	})
	if err != nil {
		return core.Ack{}, err
	}
	return c.advance(ctx, u.Expected, u.Checkpoint, u.ResumeState)
}

func (c *libCourier) schemaChange(ctx context.Context, u *core.SchemaChangeUnit) error {
	return c.surely(ctx, u.Expected, true, func(ctx context.Context) error {
		u.Call = c.next()
		return classify("HandleSchemaChange", c.handlers.schema.HandleSchemaChange(ctx, u))
	})
}

// large is not repeated in place, as its pieces are gone; the next session sends it
// again, which is one repeat of one transaction.
func (c *libCourier) large(ctx context.Context, f *feed) (core.Ack, error) {
	err := c.while(ctx, func() bool { return !f.taken }, func(ctx context.Context) error {
		f.begin.Call = c.next()
		_, err := c.handlers.large.HandleLargeTransaction(ctx, f)
		return classify("HandleLargeTransaction", err)
	})
	if err != nil {
		return core.Ack{}, libRefusal(err)
	}
	if f.commit == nil {
		return core.Ack{}, core.NewHalt(core.HaltSinkContract, "HandleLargeTransaction", "the sink said OK before the commit frame")
	}
	return c.advance(ctx, f.begin.Expected, f.commit.Checkpoint, f.commit.ResumeState)
}

// introducedMax bounds how often in a row a sink may say that it is another instance than
// the one it has just named. Two processes behind one address do that for ever.
const introducedMax = 10

// surely repeats a call until the sink has said OK: after an unknown outcome, a new
// instance or a stale delivery it introduces itself again and sends the same work with a
// higher sequence. Each unknown may be one repeat of this work, within the guarantee of
// the mode; too many in a row halt. Work that must not be repeated in place is left to the
// next session by its first unknown outcome.
func (c *libCourier) surely(ctx context.Context, at core.LSN, inPlace bool, once func(context.Context) error) error {
	pace := newPace()
	for introduced := 0; ; {
		err := c.patiently(ctx, once)
		failed, ok := answer(err)
		if !ok {
			c.doubt.progress(at)
			return err
		}
		switch {
		case notOurs(failed):
			if introduced++; introduced > introducedMax {
				return core.NewHalt(core.HaltSinkContract, failed.Call,
					"the sink refused the instance that it had named, %d times in a row: are several processes behind one address?", introduced)
			}
			if introduced > 1 && !sleep(ctx, pace.NextBackOff()) {
				return failed
			}
		case failed.Unknown() && !failed.NeverSent && !inPlace:
			return failed
		case failed.Unknown():
			if err := c.unknown(at, failed); err != nil {
				return err
			}
			// A sink may answer questions at once and units with an error.
			c.notReady(failed.Error())
			if !sleep(ctx, pace.NextBackOff()) {
				return failed
			}
		default:
			return failed
		}
		if err := c.introduceAgain(ctx, at, pace); err != nil {
			return err
		}
	}
}

// introduceAgain waits for a sink that is away as long as it takes.
func (c *libCourier) introduceAgain(ctx context.Context, at core.LSN, pace *backoff.ExponentialBackOff) error {
	for {
		err := c.introduce(ctx, at)
		failed, ok := answer(err)
		if !ok || !failed.Unknown() {
			return err
		}
		if err := c.unknown(at, failed); err != nil {
			return err
		}
		c.notReady(failed.Error())
		if !sleep(ctx, pace.NextBackOff()) {
			return failed
		}
	}
}

// unknown counts what has no answer; a sink that is away is no case of doubt, nor is a
// question.
func (c *libCourier) unknown(at core.LSN, failed *core.SinkError) error {
	if failed.NeverSent || failed.Class == core.ClassAway || asks(failed.Call) {
		return nil
	}
	return c.doubt.note(at, failed, c.pipeline.caps.Limits.Resolved().CallDuration)
}

// answer is what a sink answered, unless that has become a halt or the end of the session
// already.
func answer(err error) (*core.SinkError, bool) {
	var failed *core.SinkError
	var next *again
	if isHalt(err) || errors.As(err, &next) || !errors.As(err, &failed) {
		return nil, false
	}
	return failed, true
}

// notOurs reports the two answers of the memory fence that say: not done, look again.
func notOurs(failed *core.SinkError) bool {
	return failed.Reason == core.ReasonInstanceChanged || failed.Reason == core.ReasonStaleDelivery
}

// libRefusal turns answers that only the memory fence gives into the end of the session.
func libRefusal(err error) error {
	if failed, ok := answer(err); ok && notOurs(failed) {
		return &again{StateStarting, 0, failed}
	}
	return err
}

// advance moves the row by compare-and-set. A write of unknown outcome is resolved by
// the row itself.
func (c *libCourier) advance(ctx context.Context, from, to core.LSN, resume []byte) (core.Ack, error) {
	move := checkpoint.Move{StreamID: c.call.StreamID, Epoch: c.call.Epoch, Sender: c.call.SenderID, From: from, To: to, ResumeState: resume}
	err := c.steadily(ctx, func() error {
		_ = failpoint.Hit(failpoint.StoreBefore)
		err := c.store.Advance(ctx, move)
		var away *checkpoint.UnavailableError
		if !errors.Is(err, checkpoint.ErrMoved) && !errors.As(err, &away) {
			return err
		}
		r, readErr := c.ours(ctx)
		switch {
		case readErr != nil:
			return readErr
		case r.Position == to:
			return nil
		case r.Position == from && away != nil:
			return away // unwritten: the same write again
		}
		return regress(r.Position, from)
	})
	return core.Ack{Checkpoint: to}, err
}
