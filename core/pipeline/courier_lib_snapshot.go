package pipeline

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// snapshot sends a unit that belongs to no position. That the sink is another instance
// than it was means that it has not done this unit, and what it said OK to is durable. An
// unknown outcome is left to the caller.
func (c *libCourier) snapshot(ctx context.Context, u *core.SnapshotUnit) (counts core.Counts, err error) {
	pace := newPace()
	for introduced := 0; ; {
		err = c.patiently(ctx, func(ctx context.Context) (err error) {
			u.Call = c.next()
			counts, err = c.handlers.snapshot.HandleSnapshot(ctx, u)
			return classify("HandleSnapshot", err)
		})
		failed, ok := answer(err)
		if !ok || !notOurs(failed) {
			return counts, err
		}
		if introduced++; introduced > introducedMax {
			return counts, core.NewHalt(core.HaltSinkContract, failed.Call,
				"the sink refused the instance that it had named, %d times in a row: are several processes behind one address?", introduced)
		}
		if introduced > 1 && !sleep(ctx, pace.NextBackOff()) {
			return counts, failed
		}
		if err := c.introduceAgain(ctx, u.Expected, pace); err != nil {
			return counts, err
		}
	}
}

// complete writes the consistent point into the row: the sink has said OK to all before.
func (c *libCourier) complete(ctx context.Context, u *core.SnapshotCompleteUnit) (core.Ack, error) {
	return c.advance(ctx, u.Expected, u.Checkpoint, u.ResumeState)
}
