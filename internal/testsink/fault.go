package testsink

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// retryPause is what we ask for when the destination is away.
const retryPause = 100 * time.Millisecond

var errNoCommit = errors.New("the destination answered COMMIT with something else")

// serverSaid reports whether the error is the server's word, not a lost connection.
func serverSaid(err error) bool {
	_, ok := errors.AsType[*pgconn.PgError](err)
	return ok
}

// notDone answers for work that is certainly not done. The text holds the SQLSTATE and
// our own words, never the server's, which may quote a row.
func notDone(err error) error {
	said, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return &core.Refusal{Reason: core.ReasonNotReady, Text: "the destination cannot be reached", RetryAfter: retryPause}
	}
	if said.ConstraintName == "stream_pkey" {
		return &core.Refusal{Reason: core.ReasonNotReady, Text: "another claim made the row", RetryAfter: retryPause}
	}
	switch said.Code {
	case "22021": // text in no encoding, or with a zero byte
		return &core.Refusal{Reason: core.ReasonValueUnrepresentable, Text: "the destination says " + said.Code}
	case "54011": // more columns than a table has
		return &core.Refusal{Reason: core.ReasonSchemaDeclined, Text: "the destination says " + said.Code}
	}
	switch said.Code[:2] {
	case "08", "25", "40", "53", "55", "57", "58":
		return &core.Refusal{Reason: core.ReasonNotReady, Text: "the destination says " + said.Code, RetryAfter: retryPause}
	case "21", "22", "23", "54":
		return &core.Refusal{Reason: core.ReasonUnitRejected, Text: "the destination says " + said.Code}
	}
	return err
}

// inDoubt answers for a COMMIT that was sent and not heard of. An error that the server
// gave at the COMMIT, such as of a deferred constraint, is an answer; a session that was
// ended there is not.
func inDoubt(err error) error {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && said.Severity == "ERROR" {
		return notDone(err)
	}
	return status.Error(codes.Unavailable, "the commit was sent, its answer was lost")
}
