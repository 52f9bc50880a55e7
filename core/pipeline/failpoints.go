package pipeline

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// passed is behind every frame that the machine has taken, in a test build.
func (l *loop) passed(it *item) {
	if it.keepalive {
		if _, open := l.machine.asm.Open(); open {
			_ = failpoint.Hit(failpoint.ReadKeepalive)
		}
		return
	}
	switch it.msg.Kind {
	case pgoutput.KindInsert, pgoutput.KindUpdate, pgoutput.KindDelete, pgoutput.KindTruncate:
		_ = failpoint.Hit(failpoint.ReadChange)
	case pgoutput.KindCommit, pgoutput.KindStreamCommit:
		_ = failpoint.Hit(failpoint.ReadCommit)
	}
}

// stepPassed is behind every step of an incremental run that is durable.
func stepPassed(step *incremental.Step) {
	if !failpoint.Enabled || step == nil {
		return
	}
	_ = failpoint.Hit(failpoint.TokenStored)
	switch {
	case step.Notes():
		_ = failpoint.Hit(failpoint.RepairNoted)
	case step.Clears():
		_ = failpoint.Hit(failpoint.TableCleared)
	case step.Attaches():
		_ = failpoint.Hit(failpoint.TableAttached)
	}
}

// withFailpoints puts a call to the sink between its two points. In a release build it is
// the call itself.
func withFailpoints(once func(context.Context) error) func(context.Context) error {
	if !failpoint.Enabled {
		return once
	}
	return func(ctx context.Context) error {
		if err := failpoint.Hit(failpoint.CallBefore); err != nil {
			return injected(err)
		}
		if err := once(ctx); err != nil {
			return err
		}
		return injected(failpoint.Hit(failpoint.CallAfter))
	}
}

// injected makes the error of a point what a lost answer is: an unknown outcome.
func injected(err error) error {
	if err == nil {
		return nil
	}
	return &core.SinkError{Class: core.ClassUnknown, Call: "failpoint", Code: err.Error()}
}
