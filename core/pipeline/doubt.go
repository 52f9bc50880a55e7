package pipeline

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Bounds of unknown outcomes in a row on one unit.
const (
	unknownMax    = 5
	suspiciousMax = 3
)

// codeDeadline is the gRPC name of an expired deadline.
const codeDeadline = "DEADLINE_EXCEEDED"

// doubt counts unknown outcomes across sessions. A unit is recognised by the position
// before it: progress clears the counts. It also owns the call deadline, which doubles
// after each expiry up to what the sink allows.
type doubt struct {
	position            core.LSN
	unknown, suspicious int
	timeout             time.Duration
	unauthorizedSince   time.Time
	unauthorizedCall    string // the call that was refused then
}

func (d *doubt) deadline() time.Duration {
	if d.timeout == 0 {
		return callTimeoutDefault
	}
	return d.timeout
}

// progress forgets all doubt: the sink has answered.
func (d *doubt) progress(durable core.LSN) {
	*d = doubt{position: durable, timeout: d.timeout}
}

// note takes a call of unknown outcome. It returns the halt that ends the run when the
// bound is reached; a sink that is away is waited for without end.
func (d *doubt) note(at core.LSN, failed *core.SinkError, longest time.Duration) error {
	if at != d.position {
		*d = doubt{position: at, timeout: d.timeout}
	}
	switch failed.Class {
	case core.ClassUnknown:
		d.unknown++
		if failed.Code == codeDeadline {
			d.timeout = min(2*d.deadline(), max(longest, callTimeoutDefault))
		}
	case core.ClassSuspicious:
		d.suspicious++
	}
	switch {
	case d.suspicious >= suspiciousMax:
		return refused(core.HaltSinkFailed, failed)
	case d.unknown >= unknownMax:
		return refused(core.HaltSinkUnknown, failed)
	}
	return nil
}

// unauthorized bounds how long refused credentials are tried, with now as the time.
func (d *doubt) unauthorized(now time.Time, failed *core.SinkError) error {
	if d.unauthorizedSince.IsZero() {
		d.unauthorizedSince, d.unauthorizedCall = now, failed.Call
	}
	if now.Sub(d.unauthorizedSince) >= unauthorizedMax {
		return refused(core.HaltSinkUnauthorized, failed)
	}
	return nil
}

// authorized forgets refused credentials: the sink has answered this call. GetCapabilities
// may be open to everybody, so it says nothing of a refused Checkpoint; a unit that is
// refused for long ends its own session.
func (d *doubt) authorized(call string) {
	if call != "GetCapabilities" || call == d.unauthorizedCall || !asks(d.unauthorizedCall) {
		d.unauthorizedSince, d.unauthorizedCall = time.Time{}, ""
	}
}
