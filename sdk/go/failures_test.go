package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
)

// Neither a panic nor a driver's error shows a value: not to the caller, not in the log.
func TestFailuresShowNoValue(t *testing.T) {
	ctx := within(t)
	const secret = "SECRET-4711"
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var fail func() error
	var hooked []error
	var seen []string
	s := start(t, &stub{handle: func(context.Context, *core.Unit) (core.Ack, error) { return core.Ack{}, fail() }},
		WithLogger(logger), WithErrorHook(func(_ context.Context, call string, err error) { hooked = append(hooked, err) }),
		WithCallObserver(func(call string, code codes.Code, _ time.Duration) { seen = append(seen, fmt.Sprint(call, " ", code)) }))
	driver := &pgError{secret}
	for _, failing := range []func() error{
		func() error { panic(secret) },
		func() error { panic(fmt.Errorf("bad row %s", secret)) },
		func() error { m := map[string]int(nil); return unlucky(m) },
		func() error { return driver },
		func() error { return fmt.Errorf("insert %s: %w", secret, driver) },
		func() error { return errors.New(secret) },
	} {
		fail = failing
		_, err := s.HandleTransaction(ctx, request(1, 1, 1, nil))
		require.Equal(t, codes.Internal, status.Code(err))
		require.Equal(t, wire.FailedText, status.Convert(err).Message())
	}
	fail = func() error { return nil } // the stream's turn was given back each time
	_, err := s.HandleTransaction(ctx, request(1, 1, 1, nil))
	require.NoError(t, err)
	require.NoError(t, s.stop())
	mu.Lock()
	defer mu.Unlock()
	require.NotContains(t, log.String(), secret)
	require.Equal(t, 3, strings.Count(log.String(), "callback panicked"))
	require.Contains(t, log.String(), "serve_test.go", "the stack says where")
	require.Equal(t, 3, strings.Count(log.String(), "callback failed"))
	require.Equal(t, 2, strings.Count(log.String(), "sqlstate=23505"))
	require.Len(t, hooked, 3, "the hook sees errors as they are")
	require.Same(t, driver, hooked[0])
	require.Len(t, seen, 7)
	require.Equal(t, "HandleTransaction Internal", seen[0])
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

type pgError struct{ text string }

func (e *pgError) Error() string  { return e.text }
func (*pgError) SQLState() string { return "23505" }

// unlucky panics in the runtime, not by a word of ours.
func unlucky(m map[string]int) error {
	m[""] = 1
	return nil
}
