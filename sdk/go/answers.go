package sink

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
)

// Answers that have no reason of their own. For all others a callback returns a
// *core.Refusal.

// Busy says that nothing was done and the same unit may come again after that time.
func Busy(after time.Duration) error { return wire.ThrottleStatus(after, "busy").Err() }

// TooLarge says that nothing was done and the unit has to come in smaller pieces.
func TooLarge() error { return status.Error(codes.ResourceExhausted, "too large") }
