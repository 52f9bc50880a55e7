package main

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// pause is when a sidecar should ask again while the destination is away.
const pause = 200 * time.Millisecond

// refusal says what an error before the commit means: nothing was stored. Its text is ours
// and the SQLSTATE's, since what the server says may quote a row.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	said, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return &core.Refusal{Reason: core.ReasonNotReady, Text: "the destination cannot be reached", RetryAfter: pause}
	}
	why := &core.Refusal{Reason: core.ReasonUnitRejected, Text: "the destination says " + said.Code}
	switch said.Code[:2] {
	case "08", "40", "53", "55", "57", "58": // away, or in somebody's way
		why.Reason, why.RetryAfter = core.ReasonNotReady, pause
	case "21", "22", "23", "54": // the unit is at fault
		if said.ConstraintName == "_replicant_streams_pkey" { // another claim made the row
			why.Reason, why.RetryAfter = core.ReasonNotReady, pause
		}
	default:
		return err
	}
	switch said.Code {
	case "22021": // text that is not UTF-8
		why.Reason = core.ReasonValueUnrepresentable
	case "54011": // more columns than a table can have
		why.Reason = core.ReasonSchemaDeclined
	}
	return why
}

// inDoubt is for a COMMIT without an answer: it may have been done. The sidecar asks for the
// position then, which is why nothing is tried again here.
func inDoubt(err error) error {
	if _, answered := errors.AsType[*pgconn.PgError](err); answered {
		return refusal(err)
	}
	return status.Error(codes.Unavailable, "the commit was sent, its answer was lost")
}
