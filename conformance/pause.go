package conformance

import (
	"context"
	"time"
)

// pause lets a moment pass, where the moment itself is what is tried.
func pause(ctx context.Context, milliseconds int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
	}
}
