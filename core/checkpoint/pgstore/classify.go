package pgstore

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// transient are the SQLSTATEs after which the same call may succeed without anybody's
// help; a class has two characters. Everything else that a server says halts.
// Source: https://www.postgresql.org/docs/current/errcodes-appendix.html
var transient = map[string]string{
	"08":    "the connection is broken",
	"57P01": "the server ended the session",
	"57P02": "the server has crashed",
	"57P03": "the server takes no connections at the moment",
	"57P05": "the server ended an idle session",
	"57014": "the statement took too long",
	"53100": "the disk is full",
	"53200": "the server is out of memory",
	"53300": "the server has no connection left",
	"40001": "the server asks to try again",
	"40P01": "the server found a deadlock",
	"40003": "the outcome is unknown",
	"55P03": "the row is locked by another session",
	// Among others a new session while the disk is full ("could not write init file").
	"XX000": "the server has an internal error",
}

// refusals say in our words why a server refuses for good.
var refusals = map[string]string{
	"42501": "the role lacks a right on the table or its schema",
	"42P01": "the table is gone",
	"42703": "the table has another shape",
	"42804": "the table has another shape",
	"42P10": "the table has no unique key on stream_id",
	"3D000": "the database does not exist",
	"3F000": "the schema does not exist",
	"25006": "the server or the role is read-only",
	"28000": "the role may not log in",
	"28P01": "the password is wrong or missing",
}

// classify turns any failure into a *checkpoint.UnavailableError or a *core.Halt. The
// server's own text is never kept: it can quote values.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	var away *checkpoint.UnavailableError
	if _, halted := core.AsHalt(err); halted || errors.As(err, &away) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return classifyServer(op, pg.Code)
	}
	if reason, lost := lostReason(err); lost {
		return &checkpoint.UnavailableError{Op: op, Reason: reason}
	}
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &cert):
		return invalid("the server's certificate was not accepted")
	case strings.Contains(err.Error(), "server refused TLS connection"): // the driver has no type for it
		return invalid("the server does not offer TLS, which sslmode demands")
	}
	return invalid("an error of type %T", err)
}

func classifyServer(op, code string) error {
	for _, key := range []string{code, code[:min(2, len(code))]} {
		if reason, ok := transient[key]; ok {
			return &checkpoint.UnavailableError{Op: op, Reason: reason + " (SQLSTATE " + code + ")"}
		}
	}
	if reason, ok := refusals[code]; ok {
		return invalid("%s (SQLSTATE %s)", reason, code)
	}
	return invalid("the server refused (SQLSTATE %s)", code)
}

func invalid(format string, args ...any) error {
	return core.NewHalt(core.HaltStoreInvalid, "store", format, args...)
}

// lostReason knows failures of the network and of time, without addresses or foreign
// text.
func lostReason(err error) (string, bool) {
	var dns *net.DNSError
	var errno syscall.Errno
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled", true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time", true
	case errors.As(err, &dns):
		return "the host name cannot be resolved", true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "the server closed the connection", true
	case errors.As(err, &errno):
		return errno.Error(), true
	case errors.As(err, &network):
		return "the network failed", true
	}
	return "", false
}
