package wire

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// detailBytesMax bounds the details of a status, which travel in the trailer.
const detailBytesMax = 4096

// FailedText is all that a caller learns of an error that is not one of ours.
const FailedText = "the sink failed"

// StatusOf is the answer for an error of a handler: the mirror image of SinkErrorOf.
// Text leaves the process only where it was meant to: a *core.Refusal's, a
// *FieldError's, or a gRPC status that the handler made itself. Everything else, such
// as a driver's error, is INTERNAL with a fixed text.
func StatusOf(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	if refusal, ok := errors.AsType[*core.Refusal](err); ok {
		return refusalStatus(refusal)
	}
	if field, ok := errors.AsType[*FieldError](err); ok {
		return withDetails(codes.InvalidArgument, field.Error(), &errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field.Path, Description: field.Problem}},
		})
	}
	if made, ok := err.(grpcError); ok { // not one inside: a driver's status is no word of the handler's
		return boundStatus(made.GRPCStatus())
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, "deadline of the call")
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "call cancelled")
	}
	return status.New(codes.Internal, FailedText)
}

// grpcError is an error that brings its status along.
type grpcError interface {
	error
	GRPCStatus() *status.Status
}

func refusalStatus(r *core.Refusal) *status.Status {
	if _, known := codeOfReason[r.Reason]; !known {
		return status.New(codes.Internal, FailedText)
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: string(r.Reason), Domain: ErrorDomain}}
	if r.RetryAfter > 0 {
		details = append(details, retryInfo(r.RetryAfter))
	}
	return withDetails(CodeOf(r.Reason), r.Text, details...)
}

// ThrottleStatus is RESOURCE_EXHAUSTED with a RetryInfo: busy, nothing was done.
func ThrottleStatus(after time.Duration, text string) *status.Status {
	return withDetails(codes.ResourceExhausted, text, retryInfo(after))
}

func retryInfo(after time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
}

func withDetails(code codes.Code, text string, details ...protoadapt.MessageV1) *status.Status {
	bare := status.New(code, CutText(text))
	full, err := bare.WithDetails(details...)
	if err != nil {
		return bare
	}
	return full
}

// boundStatus keeps what a handler answered within the contract's limits. Details that
// are too large are left out whole; the code stays.
func boundStatus(st *status.Status) *status.Status {
	if st == nil || st.Code() == codes.OK {
		return status.New(codes.Internal, FailedText)
	}
	message := st.Proto()
	message.Message = CutText(message.GetMessage())
	size := 0
	for _, detail := range message.GetDetails() {
		size += len(detail.GetValue()) + len(detail.GetTypeUrl())
	}
	if size > detailBytesMax {
		message.Details = nil
	}
	return status.FromProto(message)
}
