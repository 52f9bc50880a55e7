package wire

import (
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

const (
	// ErrorDomain is the domain of our reasons in google.rpc.ErrorInfo.
	ErrorDomain = "sink.replicant"
	// ReasonTrailer is the trailing metadata that stands in for ErrorInfo.
	ReasonTrailer = "sink-reason"
	// statusTextMax bounds the text of a status.
	statusTextMax = 1024
	// retryAfterMax bounds what a sink may ask us to wait.
	retryAfterMax = time.Hour
)

// SinkErrorOf classifies the failure of a call. trailer is the call's trailing
// metadata and may be nil; neverSent says that no stream to the sink came to be.
func SinkErrorOf(call string, err error, trailer metadata.MD, neverSent bool) *core.SinkError {
	st := statusOf(err)
	failure := &core.SinkError{
		Call: call, Code: CodeName(st.Code()), Detail: CutText(st.Message()), NeverSent: neverSent,
	}
	if neverSent && noConnection(st.Code()) {
		failure.Class = core.ClassAway
		return failure
	}
	reason, retryInfo := readDetails(st, trailer)
	outcome := Decide(call, st.Code(), reason, retryInfo != nil)
	failure.Class, failure.Halt, failure.Reason = outcome.Class, outcome.Halt, reason
	if delay := retryInfo.GetRetryDelay(); delay.IsValid() {
		failure.RetryAfter = min(max(delay.AsDuration(), 0), retryAfterMax)
	}
	return failure
}

// noConnection are the codes that gRPC itself answers with while it has no connection.
func noConnection(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

// statusOf also takes the context errors that a stream may end with.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err)
}

// readDetails finds a reason of ours, in the details or else in the trailer, and the
// wish for a delay. A reason of another domain, or one that is not known, is none.
func readDetails(st *status.Status, trailer metadata.MD) (core.Reason, *errdetails.RetryInfo) {
	var reason core.Reason
	var retry *errdetails.RetryInfo
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			named := core.Reason(detail.GetReason())
			if _, known := outcomeOfReason[named]; known && reason == "" && detail.GetDomain() == ErrorDomain {
				reason = named
			}
		case *errdetails.RetryInfo:
			retry = detail
		}
	}
	for _, value := range trailer.Get(ReasonTrailer) {
		if _, known := outcomeOfReason[core.Reason(value)]; known && reason == "" {
			reason = core.Reason(value)
		}
	}
	return reason, retry
}

// CutText cuts a status text to 1 KiB of valid UTF-8.
func CutText(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= statusTextMax {
		return text
	}
	end := statusTextMax
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// CodeName is a code as the contract spells it: FAILED_PRECONDITION.
func CodeName(code codes.Code) string {
	if name, known := codeNames[code]; known {
		return name
	}
	return "UNLISTED"
}

var codeNames = map[codes.Code]string{
	codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN",
	codes.InvalidArgument: "INVALID_ARGUMENT", codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
	codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED",
	codes.OutOfRange: "OUT_OF_RANGE", codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL",
	codes.Unavailable: "UNAVAILABLE", codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}

// ContractBreach is the refusal of an answer that is OK but breaks the contract, such
// as a position of 0. The field's name goes into Detail; there is no value in it.
func ContractBreach(call string, err error) *core.SinkError {
	failure := &core.SinkError{
		Class: core.ClassRefused, Call: call, Code: CodeName(codes.OK), Halt: core.HaltSinkContract,
	}
	if err != nil {
		failure.Detail = CutText(err.Error())
	}
	return failure
}
