package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/child"
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/config"
)

// fakeEngine runs until it is drained, aborted or told to end.
type fakeEngine struct {
	once     sync.Once
	drain    chan struct{}
	end      chan error
	onDrain  func() error // what Run returns after a drain
	deaf     bool         // does not end by a drain
	canceled bool
}

var errCanceled = errors.New("canceled")

func (e *fakeEngine) Drain() { e.once.Do(func() { close(e.drain) }) }

func (e *fakeEngine) GuardSlot(ctx context.Context) { <-ctx.Done() }

func (e *fakeEngine) Run(ctx context.Context) error {
	drain := e.drain
	if e.deaf {
		drain = nil
	}
	select {
	case <-drain:
		return e.onDrain()
	case err := <-e.end:
		return err
	case <-ctx.Done():
		e.canceled = true
		return errCanceled
	}
}

func newEngine() *fakeEngine {
	return &fakeEngine{drain: make(chan struct{}), end: make(chan error, 1), onDrain: func() error { return nil }}
}

func newSidecar(t *testing.T, command ...string) *sidecar {
	t.Helper()
	s := &sidecar{config: &config.Config{OnHalt: "exit"}, log: slog.New(slog.DiscardHandler), pings: make(chan struct{})}
	if len(command) > 0 {
		c, err := child.Start(child.Options{Args: command, Stdout: io.Discard, Stderr: io.Discard, Grace: time.Second})
		require.NoError(t, err)
		s.child = c
		t.Cleanup(func() { c.Kill(); c.Stop() })
	}
	return s
}

// watched is watch with a limit, so that a run that does not end is a failure.
func (s *sidecar) watched(t *testing.T, e engine, signals <-chan os.Signal) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- s.watch(e, signals) }()
	select {
	case err := <-result:
		return err
	case <-time.After(10 * time.Second):
		require.Fail(t, "the run did not end")
		return nil
	}
}

func (s *sidecar) childLives() bool {
	select {
	case <-s.child.Done():
		return false
	default:
		return true
	}
}

func TestTheSinkIsStoppedOnlyAfterTheDrain(t *testing.T) {
	s, e, signals := newSidecar(t, "sleep", "60"), newEngine(), make(chan os.Signal, 4)
	lived := false
	e.onDrain = func() error {
		time.Sleep(50 * time.Millisecond) // work in flight
		lived = s.childLives()
		return nil
	}
	signals <- syscall.SIGTERM
	require.NoError(t, s.watched(t, e, signals))
	require.True(t, lived, "the sink was gone before the drain was over")
	s.stopChild(signals)
	require.False(t, s.childLives())
}

func TestSecondSignalCancelsTheEngine(t *testing.T) {
	s, e, signals := newSidecar(t), newEngine(), make(chan os.Signal, 4)
	e.deaf = true
	signals <- syscall.SIGINT
	go func() {
		time.Sleep(2 * echo)
		signals <- syscall.SIGINT
	}()
	require.ErrorIs(t, s.watched(t, e, signals), errCanceled)
	require.True(t, e.canceled)
}

// TestTheEchoOfASignalIsNoSecondOne: timeout(1) signals the process and then its group.
func TestTheEchoOfASignalIsNoSecondOne(t *testing.T) {
	s, e, signals := newSidecar(t), newEngine(), make(chan os.Signal, 4)
	e.onDrain = func() error { time.Sleep(echo); return nil }
	signals <- syscall.SIGTERM
	signals <- syscall.SIGTERM
	require.NoError(t, s.watched(t, e, signals))
	require.False(t, e.canceled)
}

func TestChildThatEndsFirstGivesItsCode(t *testing.T) {
	s, e := newSidecar(t, "sh", "-c", "exit 9"), newEngine()
	var exit *exitError
	require.ErrorAs(t, s.watched(t, e, nil), &exit)
	require.Equal(t, 9, exit.code)
	require.True(t, e.canceled)
}

// Once a drain was asked for, the child's end is no news and its code is not ours.
func TestChildThatEndsDuringADrainChangesNothing(t *testing.T) {
	s, e, signals := newSidecar(t, "sleep", "60"), newEngine(), make(chan os.Signal, 4)
	e.onDrain = func() error {
		_ = syscall.Kill(s.child.PID(), syscall.SIGKILL)
		<-s.child.Done()
		time.Sleep(20 * time.Millisecond)
		return nil
	}
	signals <- syscall.SIGTERM
	require.NoError(t, s.watched(t, e, signals))
	require.False(t, e.canceled)
}

func TestHaltParksUntilASignal(t *testing.T) {
	halt := core.NewHalt(core.HaltSlotAhead, "test", "")
	s, e, signals := newSidecar(t, "sleep", "60"), newEngine(), make(chan os.Signal, 4)
	e.end <- halt
	require.Equal(t, halt, s.watched(t, e, signals), "on_halt: exit")

	s.config.OnHalt = "park"
	e = newEngine()
	e.end <- halt
	result := make(chan error, 1)
	go func() { result <- s.watch(e, signals) }()
	for range 3 {
		require.NoError(t, s.alive(t.Context()), "parked and alive")
	}
	select {
	case <-result:
		require.Fail(t, "did not park")
	case <-time.After(50 * time.Millisecond):
	}
	require.True(t, s.childLives())
	signals <- syscall.SIGTERM
	require.Equal(t, halt, <-result)
}

func TestAliveNeedsTheLoop(t *testing.T) {
	s := newSidecar(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.Error(t, s.alive(ctx))
}
