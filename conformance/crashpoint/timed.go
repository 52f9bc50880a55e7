package crashpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// kills is how many timed kills a call gets where the plan says no number.
const kills = 60

// Timed kills a sink after fractions of the time that its call takes, from none of it to
// 130 %. It is a sample: what lies between two kills was not seen.
type Timed struct{ target conformance.Target }

// NewTimed needs a target that can be killed and started.
func NewTimed(target conformance.Target) *Timed { return &Timed{target} }

// Engine is "timed".
func (*Timed) Engine() string { return "timed" }

// Visit is that of conformance.Crasher.
func (t *Timed) Visit(ctx context.Context, plan conformance.CrashPlan) (conformance.CrashMap, error) {
	m := conformance.CrashMap{Label: plan.Label, Engine: t.Engine(), Sampled: true}
	whole := plan.Baseline
	if whole == 0 {
		began, err := t.prepared(ctx, plan, 0)
		if err != nil {
			return m, err
		}
		if err := plan.Act(ctx, 0); err != nil {
			return m, fmt.Errorf("the call failed though nothing was done to the sink: %w", err)
		}
		whole = time.Since(began)
	}
	limit := plan.Limit
	if limit <= 0 {
		limit = kills
	}
	for n := 1; n <= limit; n++ {
		after := whole * 13 / 10 * time.Duration(n-1) / time.Duration(max(1, limit-1))
		if err := t.strike(ctx, plan, n, after); err != nil {
			return m, fmt.Errorf("kill %d: %w", n, err)
		}
		point, err := judge(ctx, t.target, plan, n)
		if err != nil {
			return m, fmt.Errorf("kill %d: %w", n, err)
		}
		point.N, point.Call = n, "after "+after.Round(10*time.Microsecond).String()
		m.Points = append(m.Points, point)
		if point.Side == conformance.Torn {
			break
		}
	}
	return m, nil
}

func (t *Timed) prepared(ctx context.Context, plan conformance.CrashPlan, n int) (time.Time, error) {
	if err := t.target.Start(ctx); err != nil {
		return time.Time{}, fmt.Errorf("start: %w", err)
	}
	if err := plan.Prepare(ctx, n); err != nil {
		return time.Time{}, fmt.Errorf("prepare: %w", err)
	}
	return time.Now(), nil
}

// strike makes the call and kills the sink meanwhile, or just after it.
func (t *Timed) strike(ctx context.Context, plan conformance.CrashPlan, n int, after time.Duration) error {
	if _, err := t.prepared(ctx, plan, n); err != nil {
		return err
	}
	killed := make(chan error, 1)
	go func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		killed <- t.target.Kill(ctx)
	}()
	_ = plan.Act(ctx, n) // the plan keeps its outcome for the judgement
	err := <-killed
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
