package admin

import (
	"fmt"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// Ready decides readiness by progress: a sidecar that is connected and does not move is
// not ready. The second result says why in one clause.
func Ready(s pipeline.Status, now time.Time, deadline time.Duration, standbyCounts bool) (bool, string) {
	switch s.State {
	case pipeline.StateStandby:
		return standbyCounts, "standby: " + orElse(s.Reason, "another sidecar holds the slot")
	case pipeline.StateHalted:
		if s.LastHalt != nil {
			return false, "halted: " + s.LastHalt.Error()
		}
		return false, "halted"
	case pipeline.StateStreaming, pipeline.StateCatchingUp:
	default:
		return false, string(s.State) + ": " + orElse(s.Reason, "no stream yet")
	}
	if s.Copy != nil && s.Copy.Failing != "" {
		return false, s.Copy.Failing
	}
	if s.Durable >= s.Received && !s.InFlight {
		return true, "all that was received is durable"
	}
	still := now.Sub(s.LastProgress)
	if still <= deadline {
		return true, fmt.Sprintf("durable moved %s ago, %d bytes behind", still.Round(time.Millisecond), s.LagBytes)
	}
	if s.LastProgress.IsZero() {
		return false, "nothing was durable yet"
	}
	return false, fmt.Sprintf("durable has not moved for %s with work waiting, %d bytes behind", still.Round(time.Second), s.LagBytes)
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
