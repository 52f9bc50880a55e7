package crashpoint

import (
	"context"
	"errors"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/internal/crash"
)

// ErrUnavailable: this machine does not let us watch a process; NewTimed needs no more
// than a way to kill it.
var ErrUnavailable = crash.ErrUnavailable

// Calls crashes a sink at its n-th call to the kernel that touches storage or the network.
type Calls struct {
	target   conformance.Target
	launcher *Launcher
}

// NewCalls needs a target whose command the launcher starts.
func NewCalls(target conformance.Target, launcher *Launcher) *Calls {
	return &Calls{target, launcher}
}

// Engine is "calls".
func (*Calls) Engine() string { return "calls" }

// Visit is that of conformance.Crasher. The error wraps ErrUnavailable where the sink could
// not be started under watch.
func (c *Calls) Visit(ctx context.Context, plan conformance.CrashPlan) (conformance.CrashMap, error) {
	m := conformance.CrashMap{Label: plan.Label, Engine: c.Engine()}
	if err := c.target.Start(ctx); err != nil {
		return m, err
	}
	if err := c.launcher.Unavailable(); err != nil {
		return m, err
	}
	return visit(ctx, c.Engine(), c.target, plan, &watched{launcher: c.launcher})
}

// watched strikes at the process that the launcher started last.
type watched struct {
	launcher *Launcher
	run      *crash.Run
	hit      <-chan struct{}
}

func (w *watched) arm(n int) error {
	w.run = w.launcher.current()
	if w.run == nil {
		return errors.New("the sink was not started by us")
	}
	w.run.Arm(crash.Shot{At: n, Action: crash.KillTree})
	w.hit = w.run.Hit()
	return nil
}

func (w *watched) settled(ctx context.Context) (int, string, error) {
	count, last := w.run.Count(), w.run.Last()
	w.run.Arm(crash.Shot{}) // whoever was struck before this has closed hit
	struck := false
	select {
	case <-w.hit:
		struck = true
	default:
	}
	if !struck {
		select {
		case <-w.run.Done():
			return 0, "", errors.New("the sink ended by itself in the call")
		default:
			return count, "", nil
		}
	}
	select {
	case <-w.run.Done():
	case <-ctx.Done():
		return 0, "", ctx.Err()
	}
	if last == nil { // between the two lines above
		return count, "just after the answer", nil
	}
	return count, last.Syscall, nil
}
