package crashpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// engine is one way to strike at the n-th moment of a call.
type engine interface {
	// arm counts from now on, and strikes at n; 0 only counts.
	arm(n int) error
	// settled returns how many moments there were since arm, and what was struck: "" for
	// nothing. After a strike it returns when all that was killed is gone.
	settled(ctx context.Context) (count int, struck string, err error)
}

// visit counts the moments of the call once, then strikes at each of them, or at a sample.
func visit(ctx context.Context, name string, target conformance.Target, plan conformance.CrashPlan, e engine) (conformance.CrashMap, error) {
	m := conformance.CrashMap{Label: plan.Label, Engine: name}
	restless, err := idle(ctx, target, plan, e)
	if err != nil {
		return m, err
	}
	total, err := counted(ctx, target, plan, e)
	switch {
	case err != nil:
		return m, err
	case total == 0:
		return m, fmt.Errorf("%s: the call reached no point at which it could be crashed", plan.Label)
	}
	if restless > 0 {
		m.Label += fmt.Sprintf(" (a sample: the sink made %d such calls in %s without being asked)", restless, idleTime)
		if plan.Limit <= 0 || plan.Limit > kills {
			plan.Limit = kills
		}
	}
	points, sampled := choose(total, plan.Limit, plan.Seed)
	sampled = sampled || restless > 0
	m.Total, m.Sampled = total, sampled
	v := &visitor{target: target, plan: plan, engine: e, run: looks}
	for i := 0; ; i++ {
		n := total + i + 1 - len(points) // behind the last that was counted
		if i < len(points) {
			n = points[i]
		} else if m.Sampled = sampled || n > most; m.Sampled {
			break
		}
		point, err := v.point(ctx, n)
		if err != nil {
			return m, err
		}
		if point.Side != conformance.Survived {
			m.Points = append(m.Points, point)
		}
		if point.Side == conformance.Torn {
			return m, nil
		}
		if point.Side == conformance.Survived && (n >= total || v.missed >= tries) {
			m.Points = append(m.Points, point)
			break
		}
	}
	m.Total = max(m.Total, reached(m.Points))
	if reached(m.Points) == 0 {
		return m, fmt.Errorf("%s: no point was reached", plan.Label)
	}
	return m, nil
}

// A sink that does more than restlessMax counted things in idleTime without being asked
// has other points in each run: they are a sample, however many are visited.
const (
	idleTime    = 50 * time.Millisecond
	restlessMax = 25
)

// idle counts what a prepared sink does by itself; 0 unless it is much.
func idle(ctx context.Context, target conformance.Target, plan conformance.CrashPlan, e engine) (int, error) {
	plan.Act = func(ctx context.Context, _ int) error {
		select {
		case <-time.After(idleTime):
		case <-ctx.Done():
		}
		return nil
	}
	count, _, err := once(ctx, target, plan, e, 0, 0)
	if count <= restlessMax {
		count = 0
	}
	return count, err
}

// looks is how many runs are without a crash, to learn how long the call is.
const looks = 3

// counted is how many moments a call has at least: a store that cleans up now and then has
// many more in some runs, which would be counted for nothing.
func counted(ctx context.Context, target conformance.Target, plan conformance.CrashPlan, e engine) (int, error) {
	least := 0
	for run := 1; run <= looks; run++ {
		n, _, err := once(ctx, target, plan, e, run, 0)
		if err != nil || n == 0 {
			return 0, err
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least, nil
}

// tries is how often a point is tried before the call counts as one that ends before it:
// with several threads a call takes a few steps more or less each time.
const tries = 3

// visitor strikes at points, each run with a number of its own.
type visitor struct {
	target      conformance.Target
	plan        conformance.CrashPlan
	engine      engine
	run, missed int
}

func (v *visitor) point(ctx context.Context, n int) (conformance.CrashPoint, error) {
	for range tries {
		v.run++
		_, struck, err := once(ctx, v.target, v.plan, v.engine, v.run, n)
		if err != nil {
			return conformance.CrashPoint{}, fmt.Errorf("point %d: %w", n, err)
		}
		if struck == "" {
			continue
		}
		point, err := judge(ctx, v.target, v.plan, v.run)
		if err != nil {
			return conformance.CrashPoint{}, fmt.Errorf("point %d, %s: %w", n, struck, err)
		}
		point.N, point.Call = n, struck
		return point, nil
	}
	v.missed++
	return conformance.CrashPoint{N: n, Side: conformance.Survived}, nil
}

// once prepares a fresh stream and makes the call, armed.
func once(ctx context.Context, target conformance.Target, plan conformance.CrashPlan, e engine, run, n int) (int, string, error) {
	if err := target.Start(ctx); err != nil {
		return 0, "", fmt.Errorf("start: %w", err)
	}
	if err := plan.Prepare(ctx, run); err != nil {
		return 0, "", fmt.Errorf("prepare: %w", err)
	}
	if err := e.arm(n); err != nil {
		return 0, "", err
	}
	acted := plan.Act(ctx, run)
	count, struck, err := e.settled(ctx)
	switch {
	case err != nil:
		return 0, "", err
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case struck == "" && acted != nil:
		return 0, "", fmt.Errorf("the call failed though nothing was done to the sink: %w", acted)
	}
	return count, struck, nil
}

func judge(ctx context.Context, target conformance.Target, plan conformance.CrashPlan, run int) (conformance.CrashPoint, error) {
	if err := target.Start(ctx); err != nil {
		return conformance.CrashPoint{}, fmt.Errorf("start again: %w", err)
	}
	side, detail, err := plan.Judge(ctx, run)
	switch {
	case err != nil:
		return conformance.CrashPoint{}, fmt.Errorf("judge: %w", err)
	case side != conformance.Before && side != conformance.After && side != conformance.Torn:
		return conformance.CrashPoint{}, errors.New("judge: no verdict")
	}
	return conformance.CrashPoint{Side: side, Detail: detail}, nil
}

func reached(points []conformance.CrashPoint) int {
	n := 0
	for _, p := range points {
		if p.Side != conformance.Survived {
			n++
		}
	}
	return n
}
