package wire

import (
	"google.golang.org/grpc/codes"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Calls whose name changes what an answer means.
const (
	CallGetCapabilities = "GetCapabilities"
	CallCheckpoint      = "Checkpoint"
)

// Outcome is what an answer means to the engine.
type Outcome struct {
	Class core.Class
	// Halt is set where the class is ClassRefused.
	Halt core.HaltCode
}

// ReasonRow is one line of the contract's table of reasons.
type ReasonRow struct {
	Reason core.Reason
	// Code is what a sink answers together with the reason. The reader does not test
	// it: the reason decides.
	Code    codes.Code
	Outcome Outcome
}

// ReasonRows is the table of reasons, complete: docs/protocol.md, "Errors". FENCED of a
// claim and of a write have one class; SinkError.Call tells them apart.
func ReasonRows() []ReasonRow {
	precondition := codes.FailedPrecondition
	refused := func(halt core.HaltCode) Outcome { return Outcome{core.ClassRefused, halt} }
	return []ReasonRow{
		{core.ReasonFenced, precondition, Outcome{Class: core.ClassFenced}},
		{core.ReasonCheckpointBehind, precondition, Outcome{Class: core.ClassBehind}},
		// Nothing was done, but only a look at instance and store says what comes next.
		{core.ReasonInstanceChanged, precondition, Outcome{Class: core.ClassUnknown}},
		{core.ReasonStaleDelivery, precondition, Outcome{Class: core.ClassUnknown}},
		{core.ReasonSourceMismatch, precondition, refused(core.HaltSourceMismatch)},
		{core.ReasonIdentityRejected, precondition, refused(core.HaltIdentityRejected)},
		{core.ReasonOriginRejected, precondition, refused(core.HaltOriginRejected)},
		{core.ReasonSchemaDeclined, precondition, refused(core.HaltSchemaRefused)},
		{core.ReasonUnitRejected, precondition, refused(core.HaltSinkRejected)},
		{core.ReasonPreparedMisplaced, precondition, refused(core.HaltSinkRejected)},
		{core.ReasonNotReady, codes.Unavailable, Outcome{Class: core.ClassThrottled}},
		{core.ReasonPreparedBusy, codes.Unavailable, Outcome{Class: core.ClassThrottled}},
		{core.ReasonPreparedUnknown, codes.NotFound, Outcome{Class: core.ClassUnknown}},
		{core.ReasonPrepareCapacity, codes.ResourceExhausted, Outcome{Class: core.ClassThrottled}},
		{core.ReasonValueUnrepresentable, codes.OutOfRange, refused(core.HaltValueUnrepresentable)},
	}
}

// CodeRow is one line of the table that decides where no reason of ours was given. A
// code that has no line is ClassSuspicious.
type CodeRow struct {
	Code codes.Code
	// RetryInfo says whether the answer carries a google.rpc.RetryInfo; only
	// RESOURCE_EXHAUSTED has two lines.
	RetryInfo bool
	Outcome   Outcome
}

// CodeRows is the table of bare codes: docs/protocol.md, "Errors".
func CodeRows() []CodeRow {
	refused := func(halt core.HaltCode) Outcome { return Outcome{core.ClassRefused, halt} }
	return []CodeRow{
		{codes.InvalidArgument, false, refused(core.HaltSinkRejected)},
		{codes.FailedPrecondition, false, refused(core.HaltSinkRejected)},
		{codes.OutOfRange, false, refused(core.HaltSinkRejected)},
		{codes.NotFound, false, refused(core.HaltSinkRejected)},
		{codes.DataLoss, false, refused(core.HaltSinkRejected)},
		{codes.AlreadyExists, false, refused(core.HaltSinkContract)},
		{codes.Unimplemented, false, refused(core.HaltSinkContract)},
		{codes.ResourceExhausted, true, Outcome{Class: core.ClassThrottled}},
		{codes.ResourceExhausted, false, Outcome{Class: core.ClassTooBig}},
		{codes.Unauthenticated, false, Outcome{Class: core.ClassUnauthorized}},
		{codes.PermissionDenied, false, Outcome{Class: core.ClassUnauthorized}},
		{codes.Unavailable, false, Outcome{Class: core.ClassAway}},
		{codes.DeadlineExceeded, false, Outcome{Class: core.ClassUnknown}},
		{codes.Canceled, false, Outcome{Class: core.ClassUnknown}},
		{codes.Aborted, false, Outcome{Class: core.ClassUnknown}},
		{codes.Internal, false, Outcome{Class: core.ClassSuspicious}},
		{codes.Unknown, false, Outcome{Class: core.ClassSuspicious}},
	}
}

var (
	outcomeOfReason = func() map[core.Reason]Outcome {
		table := make(map[core.Reason]Outcome)
		for _, row := range ReasonRows() {
			table[row.Reason] = row.Outcome
		}
		return table
	}()
	codeOfReason = func() map[core.Reason]codes.Code {
		table := make(map[core.Reason]codes.Code)
		for _, row := range ReasonRows() {
			table[row.Reason] = row.Code
		}
		return table
	}()
)

// Decide is the whole table: a known reason first, else the code. retryInfo says
// whether the answer came with a RetryInfo.
func Decide(call string, code codes.Code, reason core.Reason, retryInfo bool) Outcome {
	if outcome, known := outcomeOfReason[reason]; known {
		return outcome
	}
	for _, row := range CodeRows() {
		if row.Code == code && (row.RetryInfo == retryInfo || code != codes.ResourceExhausted) {
			return atCall(call, code, row.Outcome)
		}
	}
	return Outcome{Class: core.ClassSuspicious}
}

// atCall gives two calls their own halts: a sink that does not know GetCapabilities is
// no sink of ours, and a position that is refused is one that cannot be read.
func atCall(call string, code codes.Code, outcome Outcome) Outcome {
	switch {
	case call == CallGetCapabilities && code == codes.Unimplemented:
		outcome.Halt = core.HaltInvalidSink
	case call == CallCheckpoint && outcome.Halt == core.HaltSinkRejected:
		outcome.Halt = core.HaltCheckpointUnreadable
	}
	return outcome
}

// CodeOf is the code that a sink answers together with a reason.
func CodeOf(reason core.Reason) codes.Code {
	if code, known := codeOfReason[reason]; known {
		return code
	}
	return codes.Unknown
}
