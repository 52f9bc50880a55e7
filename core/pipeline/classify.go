package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// classify makes sure that every failure of a sink has a class. Errors of sinks behind
// the wire come classified; an in-process sink may return a Refusal or anything.
func classify(call string, err error) error {
	if err == nil {
		return nil
	}
	var known *core.SinkError
	if errors.As(err, &known) {
		return known
	}
	if halt, ok := core.AsHalt(err); ok {
		return halt
	}
	failed := &core.SinkError{Call: call, Code: "error"}
	var refusal *core.Refusal
	switch {
	case errors.As(err, &refusal):
		failed.Reason, failed.RetryAfter = refusal.Reason, refusal.RetryAfter
		failed.Class, failed.Halt = refusal.Reason.Meaning()
	case errors.Is(err, context.DeadlineExceeded):
		failed.Class, failed.Code = core.ClassUnknown, codeDeadline
	case errors.Is(err, context.Canceled):
		failed.Class = core.ClassUnknown
	default:
		failed.Code = fmt.Sprintf("%T", err)
	}
	return failed
}

func refused(code core.HaltCode, failed *core.SinkError) error {
	if code == "" {
		code = core.HaltSinkRejected
	}
	return &core.Halt{Code: code, Op: failed.Call, Detail: failed.Error(), Err: failed}
}
