package sink

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The end of a call is one error to a handler, whether gRPC's receive or the call's
// context tells it first.
func TestEndOfACallIsOneError(t *testing.T) {
	live := t.Context()
	cancelled, cancel := context.WithCancel(live)
	cancel()
	late, cancel := context.WithTimeout(live, 0)
	defer cancel()
	torn := status.Error(codes.Internal, "torn frame")
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"received":                  {live, nil, nil},
		"half closed":               {live, io.EOF, errHalfClosed},
		"half closed, then away":    {cancelled, io.EOF, errHalfClosed},
		"cancelled, told first":     {live, status.FromContextError(context.Canceled).Err(), context.Canceled},
		"cancelled, seen first":     {cancelled, status.FromContextError(context.Canceled).Err(), context.Canceled},
		"connection lost":           {cancelled, status.Error(codes.Unavailable, "transport is closing"), context.Canceled},
		"too late, told first":      {live, status.FromContextError(context.DeadlineExceeded).Err(), context.DeadlineExceeded},
		"too late, seen first":      {late, errors.New("anything"), context.DeadlineExceeded},
		"a fault while it is alive": {live, torn, torn},
	} {
		require.Equal(t, c.want, ended(c.ctx, c.err), name)
	}
}
