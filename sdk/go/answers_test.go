package sink

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
)

func TestBusyAndTooLarge(t *testing.T) {
	var answer error
	s := start(t, &stub{handle: func(context.Context, *core.Unit) (core.Ack, error) { return core.Ack{}, answer }})
	for _, c := range []struct {
		err   error
		class core.Class
		wait  time.Duration
	}{{Busy(2 * time.Second), core.ClassThrottled, 2 * time.Second}, {TooLarge(), core.ClassTooBig, 0}} {
		answer = c.err
		_, err := s.HandleTransaction(within(t), request(1, 1, 1, nil))
		got := wire.SinkErrorOf("HandleTransaction", err, nil, false)
		require.Equal(t, c.class, got.Class)
		require.Equal(t, c.wait, got.RetryAfter)
	}
}
