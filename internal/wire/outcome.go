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
	// Halt is set where nothing but a halt can follow.
	Halt core.HaltCode
}

// ReasonRow is one line of the contract's table of reasons. What a reason means is
// core's to say (core.Reason.Meaning); the wire adds the code.
type ReasonRow struct {
	Reason core.Reason
	// Code is what a sink answers together with the reason. The reader does not test
	// it: the reason decides.
	Code codes.Code
}

// Outcome is what the reason means to the engine. FENCED of a claim and of a write mean
// the same here; SinkError.Call tells them apart.
func (r ReasonRow) Outcome() Outcome {
	class, halt := r.Reason.Meaning()
	return Outcome{class, halt}
}

// ReasonRows is the table of reasons, complete: docs/protocol.md, "Errors".
func ReasonRows() []ReasonRow {
	return []ReasonRow{
		{core.ReasonFenced, codes.FailedPrecondition},
		{core.ReasonCheckpointBehind, codes.FailedPrecondition},
		{core.ReasonInstanceChanged, codes.FailedPrecondition},
		{core.ReasonStaleDelivery, codes.FailedPrecondition},
		{core.ReasonSourceMismatch, codes.FailedPrecondition},
		{core.ReasonIdentityRejected, codes.FailedPrecondition},
		{core.ReasonOriginRejected, codes.FailedPrecondition},
		{core.ReasonSchemaDeclined, codes.FailedPrecondition},
		{core.ReasonUnitRejected, codes.FailedPrecondition},
		{core.ReasonPreparedMisplaced, codes.FailedPrecondition},
		{core.ReasonNotReady, codes.Unavailable},
		{core.ReasonPreparedBusy, codes.Unavailable},
		{core.ReasonPreparedUnknown, codes.NotFound},
		{core.ReasonPrepareCapacity, codes.ResourceExhausted},
		{core.ReasonValueUnrepresentable, codes.OutOfRange},
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
			table[row.Reason] = row.Outcome()
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
