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
	handlers handlers
	store    checkpoint.Store
	unfenced bool // the operator accepted a sink without a fence
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
	if !c.unfenced && !caps.Fences(core.FencingInstance) {
		return core.NewHalt(core.HaltCapabilityLost, "GetCapabilities", "the sink no longer fences by instance")
	}
	c.call.InstanceID = caps.InstanceID
	r, err := c.ours(ctx)
	if err == nil && r.Position != at {
		err = regress(r.Position, at)
	}
	return err
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
			return err
		}
		if time.Since(began) >= storeMax {
			return &core.Halt{Code: core.HaltStoreUnavailable, Op: away.Op, Detail: away.Reason, Err: away}
		}
		c.notReady(away.Error())
		if !sleep(ctx, pace.NextBackOff()) {
			return &again{StateStoreAway, 0, away}
		}
		c.notReady("")
	}
}

func newPace() *backoff.ExponentialBackOff {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = reconnectMin, reconnectMax
	return pace
}

func (c *libCourier) unit(ctx context.Context, u *core.Unit) (core.Ack, error) {
	for i := range u.Transactions {
		tx := u.Transactions[i : i+1]
		one := core.Unit{Expected: u.Expected, Checkpoint: tx[0].EndLSN, Transactions: tx}
		err := c.surely(ctx, u.Expected, func(ctx context.Context) error {
			one.Call = c.next()
			_, err := c.handlers.transaction.HandleTransaction(ctx, &one)
			return classify("HandleTransaction", err)
		})
		if tooBig(err) && i > 0 {
			// Those before it are done; a smaller unit must not repeat them.
			if _, err := c.advance(ctx, u.Expected, u.Transactions[i-1].EndLSN, nil); err != nil {
				return core.Ack{}, err
			}
			return core.Ack{}, &again{StateStarting, reconnectMin, err}
		}
		if err != nil {
			return core.Ack{}, err
		}
	}
	return c.advance(ctx, u.Expected, u.Checkpoint, u.ResumeState)
}

func tooBig(err error) bool {
	var failed *core.SinkError
	return errors.As(err, &failed) && failed.Class == core.ClassTooBig
}

func (c *libCourier) message(ctx context.Context, u *core.MessageUnit) (core.Ack, error) {
	err := c.surely(ctx, u.Expected, func(ctx context.Context) error {
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
	return c.surely(ctx, u.Expected, func(ctx context.Context) error {
		u.Call = c.next()
		return classify("HandleSchemaChange", c.handlers.schema.HandleSchemaChange(ctx, u))
	})
}

// large is not repeated in place, as its pieces are gone; the next session sends it
// again, which is one repeat of one transaction.
func (c *libCourier) large(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	f := l.(*feed)
	f.begin.Call = c.next()
	watched := &commitWatch{LargeTransaction: l}
	if _, err := c.handlers.large.HandleLargeTransaction(ctx, watched); err != nil {
		return core.Ack{}, libRefusal(classify("HandleLargeTransaction", err))
	}
	if watched.commit == nil {
		return core.Ack{}, core.NewHalt(core.HaltSinkContract, "HandleLargeTransaction", "the sink said OK before the commit frame")
	}
	return c.advance(ctx, f.begin.Expected, watched.commit.Checkpoint, watched.commit.ResumeState)
}

// commitWatch remembers the commit frame that went by.
type commitWatch struct {
	core.LargeTransaction
	commit *core.LargeCommit
}

// Next passes a frame on.
func (w *commitWatch) Next(ctx context.Context) (core.LargeFrame, error) {
	f, err := w.LargeTransaction.Next(ctx)
	if f.Commit != nil {
		w.commit = f.Commit
	}
	return f, err
}

// surely repeats a call until the sink has said OK: after an unknown outcome, a new
// instance or a stale delivery it introduces itself again and sends the same work with a
// higher sequence. Each unknown may be one repeat of this work, within the guarantee of
// the mode; too many in a row halt.
func (c *libCourier) surely(ctx context.Context, at core.LSN, once func(context.Context) error) error {
	var inRow doubt
	pace := newPace()
	for {
		err := c.patiently(ctx, once)
		var failed *core.SinkError
		if !errors.As(err, &failed) {
			return err
		}
		introduced := failed.Reason == core.ReasonInstanceChanged || failed.Reason == core.ReasonStaleDelivery
		if !introduced && !failed.Unknown() {
			return failed
		}
		if !introduced && failed.Class != core.ClassAway {
			if err := inRow.note(at, failed, core.CallTimeoutMax); err != nil {
				return err
			}
		}
		for {
			err := c.introduce(ctx, at)
			if !errors.As(err, &failed) || !failed.Unknown() {
				if err != nil {
					return err
				}
				break
			}
			c.notReady(failed.Error())
			if !sleep(ctx, pace.NextBackOff()) {
				return failed
			}
		}
		c.notReady("")
	}
}

// libRefusal turns answers that only the memory fence gives into the end of the session.
func libRefusal(err error) error {
	var failed *core.SinkError
	if errors.As(err, &failed) && (failed.Reason == core.ReasonInstanceChanged || failed.Reason == core.ReasonStaleDelivery) {
		return &again{StateStarting, reconnectMin, failed}
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
