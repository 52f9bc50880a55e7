package pipeline

import (
	"errors"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// again is the end of a session that is no halt: what it waits for, and how long.
type again struct {
	state State
	// wait is fixed where the cause says how long; 0 leaves it to the backoff.
	wait time.Duration
	err  error
}

// Error is the cause.
func (a *again) Error() string { return a.err.Error() }

// Unwrap gives the cause.
func (a *again) Unwrap() error { return a.err }

// Pauses between sessions.
const (
	standbyInterval = time.Second
	reconnectMin    = 100 * time.Millisecond
	reconnectMax    = 5 * time.Second
	claimsMax       = 3 // claims that may be overtaken before we give way
)

var errNoAnswer = errors.New("the source's catalog does not answer")

// errPreparing: another sidecar holds the bootstrap lock.
var errPreparing = errors.New("another sidecar is preparing the slot")

var errCovered = errors.New("a large transaction that the checkpoint covers was sent again")

var errOtherTimeline = errors.New("somebody claimed on another timeline meanwhile")

var errReconnect = errors.New("the claimed position is below where the stream began")

// afterSession sorts the end of a session into a halt, a drain (nil) or another try.
// What it does not know is a halt.
func (p *Pipeline) afterSession(err error) error {
	var failed *core.SinkError
	var next *again
	switch {
	case err == nil:
		return nil
	case errors.As(err, &next):
		return next
	case errors.Is(err, assembler.ErrUnclear):
		// Sent whole, it has no such part; for the rest of this run so is everything.
		p.options.Source.Streaming = false
		return &again{StateStarting, reconnectMin, assembler.ErrUnclear}
	case errors.Is(err, wal.ErrSlotBusy):
		return &again{StateStandby, standbyInterval, err}
	case errors.Is(err, wal.ErrConnectionLost), errors.Is(err, errNoAnswer):
		return &again{StateSourceAway, 0, err}
	}
	if halt, ok := core.AsHalt(err); ok { // its cause may be a call that failed
		return halt
	}
	if errors.As(err, &failed) {
		return p.afterSinkError(failed)
	}
	return core.NewHalt(core.HaltInvariant, "session", "a session ended with an unclassified error of type %T", err)
}

// afterSinkError applies the contract's table of answers to a call that ended the
// session.
func (p *Pipeline) afterSinkError(failed *core.SinkError) error {
	switch failed.Class {
	case core.ClassFenced:
		return &core.Halt{Code: core.HaltFenced, Op: failed.Call, Detail: "another epoch rules this stream", Err: failed}
	case core.ClassRefused, core.ClassTooBig:
		return refused(failed.Halt, failed)
	case core.ClassBehind:
		p.board.update(func(s *Status) { s.Rewound++ })
		return &again{StateStarting, reconnectMin, failed}
	case core.ClassThrottled:
		return &again{StateSinkUnavailable, max(failed.RetryAfter, throttleWaitDefault), failed}
	case core.ClassUnauthorized:
		if err := p.doubt.unauthorized(time.Now(), failed); err != nil {
			return err
		}
		return &again{StateSinkUnavailable, unauthorizedInterval, failed}
	}
	if failed.NeverSent || failed.Class == core.ClassAway || asks(failed.Call) {
		return &again{StateSinkUnavailable, 0, failed}
	}
	status := p.board.current.Load()
	if err := p.doubt.note(status.Durable, failed, status.Sink.Limits.Resolved().CallDuration); err != nil {
		return err
	}
	return &again{StateSinkUnavailable, 0, failed}
}

// asks reports a call that leaves nothing in doubt, since it changes nothing or, a claim,
// may be repeated: it is made again without end. Only units are bounded.
func asks(call string) bool {
	switch call {
	case "GetCapabilities", "Checkpoint", "HandleSessionIdentity", "HandleSlotOrigin":
		return true
	}
	return false
}

// startRefusal turns what the sink answered before a stream began into the start's own
// reasons: an unreadable checkpoint is never taken for an empty one.
func startRefusal(failed *core.SinkError) error {
	if failed.Class != core.ClassRefused && failed.Class != core.ClassTooBig && failed.Class != core.ClassBehind {
		return failed
	}
	code := core.HaltCheckpointUnreadable
	if failed.Reason == core.ReasonSourceMismatch {
		code = core.HaltSourceMismatch
	}
	return &core.Halt{Code: code, Op: failed.Call, Detail: failed.Error(), Err: failed}
}
