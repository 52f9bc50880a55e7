package core

import (
	"fmt"
	"time"
)

// Reason is a word of the contract's closed list of error reasons. It decides before
// the gRPC code does.
type Reason string

// The closed list (wire domain "sink.replicant").
const (
	ReasonFenced               Reason = "FENCED"
	ReasonCheckpointBehind     Reason = "CHECKPOINT_BEHIND"
	ReasonInstanceChanged      Reason = "INSTANCE_CHANGED"
	ReasonStaleDelivery        Reason = "STALE_DELIVERY"
	ReasonSourceMismatch       Reason = "SOURCE_MISMATCH"
	ReasonIdentityRejected     Reason = "IDENTITY_REJECTED"
	ReasonOriginRejected       Reason = "ORIGIN_REJECTED"
	ReasonSchemaDeclined       Reason = "SCHEMA_DECLINED"
	ReasonUnitRejected         Reason = "UNIT_REJECTED"
	ReasonPreparedMisplaced    Reason = "PREPARED_MISPLACED"
	ReasonNotReady             Reason = "NOT_READY"
	ReasonPreparedBusy         Reason = "PREPARED_BUSY"
	ReasonPreparedUnknown      Reason = "PREPARED_UNKNOWN"
	ReasonPrepareCapacity      Reason = "PREPARE_CAPACITY"
	ReasonValueUnrepresentable Reason = "VALUE_UNREPRESENTABLE"
)

// Reasons lists them all, in the order of the contract.
func Reasons() []Reason {
	return []Reason{
		ReasonFenced, ReasonCheckpointBehind, ReasonInstanceChanged, ReasonStaleDelivery,
		ReasonSourceMismatch, ReasonIdentityRejected, ReasonOriginRejected,
		ReasonSchemaDeclined, ReasonUnitRejected, ReasonPreparedMisplaced, ReasonNotReady,
		ReasonPreparedBusy, ReasonPreparedUnknown, ReasonPrepareCapacity,
		ReasonValueUnrepresentable,
	}
}

// Meaning is what the reason says to the engine, and the halt code where it refuses for
// good. A reason that is not of the list is ClassSuspicious.
func (r Reason) Meaning() (Class, HaltCode) {
	switch r {
	case ReasonFenced:
		return ClassFenced, HaltFenced
	case ReasonCheckpointBehind:
		return ClassBehind, ""
	case ReasonNotReady, ReasonPreparedBusy, ReasonPrepareCapacity:
		return ClassThrottled, ""
	case ReasonSourceMismatch:
		return ClassRefused, HaltSourceMismatch
	case ReasonIdentityRejected:
		return ClassRefused, HaltIdentityRejected
	case ReasonOriginRejected:
		return ClassRefused, HaltOriginRejected
	case ReasonSchemaDeclined:
		return ClassRefused, HaltSchemaRefused
	case ReasonValueUnrepresentable:
		return ClassRefused, HaltValueUnrepresentable
	case ReasonUnitRejected, ReasonPreparedMisplaced, ReasonInstanceChanged, ReasonStaleDelivery:
		// The last two belong to calls whose checkpoint the sidecar owns; a sink that
		// owns its checkpoint has no business giving them.
		return ClassRefused, HaltSinkRejected
	}
	return ClassSuspicious, ""
}

// Class is what a failed sink call means to the engine. Whatever is not classified is
// ClassSuspicious, which is treated as an unknown outcome and soon halts.
type Class uint8

// The classes, from the contract's table of answers.
const (
	// ClassSuspicious: unknown outcome of a kind that should not happen (INTERNAL,
	// UNKNOWN, anything unlisted). Three in a row on one unit halt.
	ClassSuspicious Class = iota
	// ClassAway: unknown outcome because the sink is not there. Waits for ever.
	ClassAway
	// ClassUnknown: unknown outcome (deadline, cancel, abort, broken stream). Five in a
	// row on one unit halt.
	ClassUnknown
	// ClassFenced: another epoch rules. Stops for good.
	ClassFenced
	// ClassBehind: the sink's position went back. Ends the session and decides again.
	ClassBehind
	// ClassThrottled: not done; the same unit again after RetryAfter.
	ClassThrottled
	// ClassTooBig: not done; smaller requests, then the large path.
	ClassTooBig
	// ClassUnauthorized: not done; slow retries with reloaded credentials.
	ClassUnauthorized
	// ClassRefused: not done and never will be. Halts with Halt's code.
	ClassRefused
)

// SinkError is a failed call to a sink, classified. The sink's own text stays in Detail
// and is untrusted: Error does not print it and it is never logged above debug.
type SinkError struct {
	Class  Class
	Reason Reason // empty when the sink gave none of ours
	Call   string // "HandleBatch"
	Code   string // gRPC code name, or empty in-process
	// Halt is the code to halt with where Class is ClassRefused.
	Halt       HaltCode
	RetryAfter time.Duration
	Detail     string
	// NeverSent is true for failures that certainly never reached the sink.
	NeverSent bool
}

// Error names call, code and reason, never the sink's text.
func (e *SinkError) Error() string {
	what := e.Code
	if e.Reason != "" {
		what = fmt.Sprintf("%s (%s)", e.Code, e.Reason)
	}
	if e.Class == ClassAway && e.Reason == "" {
		return fmt.Sprintf("no sink answered %s (%s)", e.Call, what)
	}
	return fmt.Sprintf("sink answered %s to %s", what, e.Call)
}

// Unknown reports whether the work may or may not have been done.
func (e *SinkError) Unknown() bool {
	return e.Class == ClassSuspicious || e.Class == ClassAway || e.Class == ClassUnknown
}

// Refusal is what a handler written in Go returns to refuse with a reason of the
// contract. Text is for the sink's own operator; it must hold no row value and is cut
// to 1 KiB on the wire.
type Refusal struct {
	Reason     Reason
	Text       string
	RetryAfter time.Duration // for ReasonNotReady and ReasonPrepareCapacity
}

// Error is reason and text.
func (r *Refusal) Error() string {
	if r.Text == "" {
		return string(r.Reason)
	}
	return string(r.Reason) + ": " + r.Text
}
