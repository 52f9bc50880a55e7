package crashpoint

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

func TestTimedKillsAreASample(t *testing.T) {
	s := newToy(t, "whole", forked{})
	m, err := NewTimed(s).Visit(context.Background(), s.plan(6))
	require.NoError(t, err)
	require.True(t, m.Sampled)
	require.Equal(t, "timed", m.Engine)
	require.Len(t, m.Points, 6)
	require.Equal(t, "after 0s", m.Points[0].Call)
	for _, p := range m.Points {
		require.Contains(t, []conformance.CrashSide{conformance.Before, conformance.After}, p.Side)
	}
}

func TestATimedVisitEndsAtWhatIsTorn(t *testing.T) {
	s := newToy(t, "whole", forked{})
	plan := s.plan(6)
	plan.Judge = func(_ context.Context, n int) (conformance.CrashSide, string, error) {
		if n == 3 {
			return conformance.Torn, "a row without its position", nil
		}
		return conformance.Before, "", nil
	}
	m, err := NewTimed(s).Visit(context.Background(), plan)
	require.NoError(t, err)
	require.Len(t, m.Points, 3)
	require.Equal(t, conformance.Torn, m.Points[2].Side)
}

func TestACallThatFailsByItselfIsAnError(t *testing.T) {
	s := newToy(t, "whole", forked{})
	plan := s.plan(6)
	plan.Act = func(context.Context, int) error { return errors.New("refused") }
	_, err := NewTimed(s).Visit(context.Background(), plan)
	require.ErrorContains(t, err, "though nothing was done")
}

func TestChoose(t *testing.T) {
	for total := 1; total < 130; total++ {
		for limit := 0; limit < 70; limit++ {
			points, sampled := choose(total, limit, uint64(total*limit))
			require.Equal(t, limit > 0 && limit < total, sampled)
			if !sampled {
				require.Len(t, points, total)
				continue
			}
			require.Len(t, points, limit)
			require.Equal(t, total, points[len(points)-1])
			for i := 1; i < len(points); i++ {
				require.Greater(t, points[i], points[i-1])
			}
		}
	}
	one, _ := choose(1000, 60, 1)
	again, _ := choose(1000, 60, 1)
	other, _ := choose(1000, 60, 2)
	require.Equal(t, one, again)
	require.NotEqual(t, one, other)
	bounded, sampled := choose(most+1, 0, 1)
	require.True(t, sampled)
	require.Len(t, bounded, most)
}
