package badsinks

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// refuse is a status with a reason of the contract.
func refuse(code codes.Code, reason sinkv1.ErrorReason) error {
	st, err := status.New(code, strings.ToLower(strings.ReplaceAll(reason.Wire(), "_", " "))).
		WithDetails(&errdetails.ErrorInfo{Domain: sinkv1.ErrorDomain, Reason: reason.Wire()})
	if err != nil {
		return status.Error(codes.Internal, "no details")
	}
	return st.Err()
}

func precondition(reason sinkv1.ErrorReason) error {
	return refuse(codes.FailedPrecondition, reason)
}

func invalid(what string) error { return status.Error(codes.InvalidArgument, what) }

// storeError is what a failed store transaction answers.
func storeError(err error) error {
	switch {
	case errors.Is(err, errDead):
		return status.Error(codes.Unavailable, "the process is gone")
	case errors.Is(err, errLost), errors.Is(err, errAway):
		return status.Error(codes.Unavailable, "the store did not answer")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return err
}
