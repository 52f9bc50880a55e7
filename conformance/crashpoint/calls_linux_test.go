//go:build amd64 || arm64

package crashpoint

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

func watchedToy(t *testing.T, mode string) (*toy, *Calls) {
	launcher := NewLauncher(forked{})
	s := newToy(t, mode, launcher)
	return s, NewCalls(s, launcher)
}

func sides(m conformance.CrashMap) (all []conformance.CrashSide) {
	for _, p := range m.Points {
		all = append(all, p.Side)
	}
	return slices.Compact(all)
}

func calls(m conformance.CrashMap) (all []string) {
	for _, p := range m.Points {
		all = append(all, p.Call)
	}
	return all
}

func TestEveryPointOfAWholeSinkIsBeforeOrAfter(t *testing.T) {
	s, c := watchedToy(t, "whole")
	m, err := c.Visit(context.Background(), s.plan(0))
	require.NoError(t, err)
	require.False(t, m.Sampled)
	require.Equal(t, "calls", m.Engine)
	require.Equal(t, []conformance.CrashSide{conformance.Before, conformance.After, conformance.Survived}, sides(m))
	for _, name := range []string{"fsync", "write"} {
		require.Contains(t, calls(m), name)
	}
	for i, p := range m.Points {
		require.Equal(t, i+1, p.N)
	}
	require.Equal(t, len(m.Points)-1, m.Total)
}

func TestATornSinkIsCaughtAndItIsTheLastPoint(t *testing.T) {
	s, c := watchedToy(t, "halves")
	m, err := c.Visit(context.Background(), s.plan(0))
	require.NoError(t, err)
	last := m.Points[len(m.Points)-1]
	require.Equal(t, conformance.Torn, last.Side)
	require.Contains(t, last.Detail, "after")
	require.Equal(t, []conformance.CrashSide{conformance.Before, conformance.Torn}, sides(m))
}

func TestALimitMakesASampleAndSaysSo(t *testing.T) {
	s, c := watchedToy(t, "whole")
	m, err := c.Visit(context.Background(), s.plan(3))
	require.NoError(t, err)
	require.True(t, m.Sampled)
	require.Len(t, m.Points, 3)
	require.Greater(t, m.Total, 3)
	require.Equal(t, []int{1, m.Total}, []int{m.Points[0].N, m.Points[2].N})
}

func TestASinkThatWritesWithoutEndIsASampleAndBounded(t *testing.T) {
	s, c := watchedToy(t, "restless")
	m, err := c.Visit(context.Background(), s.plan(6))
	require.NoError(t, err)
	require.True(t, m.Sampled)
	require.Contains(t, m.Label, "without being asked")
	require.LessOrEqual(t, len(m.Points), 6)
}

func TestACallWithoutPointsIsAnError(t *testing.T) {
	s, c := watchedToy(t, "whole")
	plan := s.plan(0)
	plan.Act = func(context.Context, int) error { return nil } // never reaches the sink
	_, err := c.Visit(context.Background(), plan)
	require.ErrorContains(t, err, "reached no point")
}

func TestASinkThatEndsByItselfIsAnError(t *testing.T) {
	s, c := watchedToy(t, "whole")
	plan := s.plan(0)
	act := plan.Act
	plan.Act = func(ctx context.Context, n int) error {
		_ = s.process.Kill()
		return act(ctx, n)
	}
	_, err := c.Visit(context.Background(), plan)
	require.ErrorContains(t, err, "ended by itself")
}

func TestAJudgeThatCannotTellIsAnError(t *testing.T) {
	s, c := watchedToy(t, "whole")
	plan := s.plan(0)
	plan.Judge = func(context.Context, int) (conformance.CrashSide, string, error) { return "", "", nil }
	_, err := c.Visit(context.Background(), plan)
	require.ErrorContains(t, err, "no verdict")
}

func TestTheEndOfTheContextEndsAVisit(t *testing.T) {
	s, c := watchedToy(t, "whole")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plan := s.plan(0)
	judge := plan.Judge
	plan.Judge = func(ctx context.Context, n int) (conformance.CrashSide, string, error) {
		cancel()
		return judge(ctx, n)
	}
	_, err := c.Visit(ctx, plan)
	require.ErrorIs(t, err, context.Canceled)
}

func TestTheLauncherSaysHowASinkEnded(t *testing.T) {
	s, _ := watchedToy(t, "ends")
	require.NoError(t, s.Start(context.Background()))
	require.Empty(t, s.process.Ended())
	require.Eventually(t, func() bool { return s.store("x") != nil && s.process.Ended() != "" }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "exit status 1", s.process.Ended())
	require.Contains(t, s.Output(), "for no reason")
	require.NoError(t, s.Start(context.Background()))
	require.NoError(t, s.Kill(context.Background()))
	require.Equal(t, "signal: killed", s.process.Ended())
}

func TestWithoutTheEngineItSaysSoAndStartsThePlainWay(t *testing.T) {
	launcher := NewLauncher(forked{})
	launcher.err = ErrUnavailable
	s := newToy(t, "whole", launcher)
	_, err := NewCalls(s, launcher).Visit(context.Background(), s.plan(0))
	require.ErrorIs(t, err, ErrUnavailable)
	require.Empty(t, s.process.Ended())
	m, err := NewTimed(s).Visit(context.Background(), s.plan(4))
	require.NoError(t, err)
	require.Len(t, m.Points, 4)
}
