package wal

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
)

// phase is the step in which an error came; one SQLSTATE means different things in each.
type phase uint8

const (
	phaseConnect phase = iota // replication connection, startup
	phaseCatalog              // ordinary connection
	phaseCommand              // IDENTIFY_SYSTEM, settings
	phaseCreate               // CREATE_REPLICATION_SLOT
	phaseDrop                 // DROP_REPLICATION_SLOT
	phaseStart                // START_REPLICATION
	phaseStream               // inside the copy
)

var phaseNames = [...]string{"connect", "catalog", "command", "create slot", "drop slot", "start", "stream"}

func (p phase) String() string { return phaseNames[p] }

// classify turns any failure into a *core.Halt, an error to retry, or the context's own
// error. It is the only place where an error of the driver is looked at.
func classify(ctx context.Context, p phase, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := core.AsHalt(err); ok || errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrSlotBusy) || errors.Is(err, ErrSlotWaits) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return classifyServer(p, pg)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return core.NewHalt(core.HaltSourceRefused, p.String(), "the server's certificate was not accepted")
	}
	// The driver has no type for this one; the text is its own, not the server's.
	if strings.Contains(err.Error(), "server refused TLS connection") {
		return core.NewHalt(core.HaltSourceRefused, p.String(), "the server does not offer TLS, which sslmode demands")
	}
	return &LostError{Op: p.String(), Reason: lostReason(err)}
}

// classifyServer sorts an ErrorResponse by its SQLSTATE
// (https://www.postgresql.org/docs/current/errcodes-appendix.html). The message is
// looked at where one SQLSTATE stands for two things, and never printed; it may be
// translated, so the untranslated routine is looked at first.
func classifyServer(p phase, pg *pgconn.PgError) error {
	halt := func(code core.HaltCode, detail string) error {
		h := core.NewHalt(code, p.String(), "%s (SQLSTATE %s)", detail, pg.Code)
		h.Err = &ServerError{SQLSTATE: pg.Code, Severity: pg.SeverityUnlocalized, Routine: pg.Routine}
		return h
	}
	lost := func(reason string) error {
		return &LostError{Op: p.String(), SQLSTATE: pg.Code, Reason: reason}
	}
	switch pg.Code {
	case "57P01":
		return lost("the server ended the session")
	case "57P02":
		return lost("the server has crashed")
	case "57P03":
		return lost("the server takes no connections at the moment")
	case "25006":
		return lost("the server is read-only at the moment")
	case "57P05":
		return lost("the server ended an idle session")
	case "40001", "40P01":
		// Of a standby: its recovery had to remove what the session could still see. What
		// that did to a slot is asked when the next session begins.
		return lost("the server ended a statement that was in the way of its recovery or of another one")
	case "55006":
		return &SlotBusyError{}
	case "28000", "28P01":
		return halt(core.HaltSourceRights, rightsDetail(p, pg))
	case "42501":
		return halt(core.HaltSourceRights, "the role lacks a right; streaming needs REPLICATION, the database CONNECT")
	case "3D000":
		return halt(core.HaltSourceRefused, "the database does not exist")
	case "53300":
		if p == phaseCatalog {
			return lost("the server has no connection left")
		}
		return halt(core.HaltSlotsExhausted, "the server has no walsender left (max_wal_senders)")
	case "53400":
		return halt(core.HaltSlotsExhausted, "the server has no replication slot left (max_replication_slots)")
	}
	if detail, pooler := poolerDetail(p, pg); pooler {
		return halt(core.HaltSourcePooler, detail)
	}
	if strings.HasPrefix(pg.Code, "08") {
		return lost("the server reports a broken connection")
	}
	return classifyByPhase(p, pg, halt)
}

// classifyByPhase is the rest: meanings that hold in one phase alone, and the default.
func classifyByPhase(p phase, pg *pgconn.PgError, halt func(core.HaltCode, string) error) error {
	switch {
	case p == phaseCreate && pg.Code == "55000":
		return halt(core.HaltWALLevel, "the server's wal_level is below logical")
	case p == phaseCreate && pg.Code == "55P03":
		return ErrSlotWaits
	case p == phaseCreate && pg.Code == "42710":
		return halt(core.HaltSourceRefused, "a slot of that name exists already")
	case (p == phaseConnect || p == phaseCatalog) && pg.Code == "42704" && pg.SeverityUnlocalized == "FATAL":
		// The driver hands every word of an address that it does not know to the server.
		return halt(core.HaltSourceRefused, "the source address has an option that neither we nor the server know; is one misspelt?")
	case p == phaseDrop && pg.Code == "42704":
		return errNoSlot
	case p == phaseStart && pg.Code == "42704":
		return halt(core.HaltSlotMissing, "the replication slot does not exist")
	case p == phaseStream && pg.Code == "42704" && namesPublication(pg.Routine, pg.Message):
		return halt(core.HaltPublicationMissing, "a configured publication did not exist at this point of the WAL")
	}
	return halt(core.HaltSourceRefused, "the server refused")
}

// namesPublication reports whether an error is about a publication.
func namesPublication(routine, message string) bool {
	return strings.Contains(strings.ToLower(routine), "publication") || strings.Contains(message, "publication")
}

// rightsDetail tells a missing line of pg_hba.conf from a wrong password.
func rightsDetail(p phase, pg *pgconn.PgError) string {
	switch {
	case pg.Code == "28P01":
		return "the password is wrong or missing"
	case pg.Routine == "ClientAuthentication" && p == phaseConnect:
		return "pg_hba.conf has no entry that lets this role connect (a logical replication connection is matched by the database's name)"
	case pg.Routine == "ClientAuthentication":
		return "pg_hba.conf has no entry that lets this role connect"
	}
	return "the role may not log in"
}

// poolerDetail knows a pooler by how it fails. The rule, all of it:
//
//   - 08P01 as the answer to the startup packet: Postgres itself says that only to
//     packets that are broken; PgBouncer says it to settings it does not track
//     ("unsupported startup parameter") and to databases it does not know.
//   - a syntax error for IDENTIFY_SYSTEM: what answers took the session for an
//     ordinary one.
//   - no usable server_version, or pinned settings that are not in force afterwards
//     (both in connect.go): something in between dropped what was sent.
//
// A proxy that hands one server session through, whole, passes: it does no harm.
func poolerDetail(p phase, pg *pgconn.PgError) (string, bool) {
	switch {
	case (p == phaseConnect || p == phaseCatalog) && pg.Code == "08P01":
		return "a pooler refused the settings or the database of the connection", true
	case p == phaseCommand && pg.Code == "42601":
		return "what answers does not know replication commands", true
	}
	return "", false
}

// lostReason describes a failure of the network without addresses or foreign text.
func lostReason(err error) string {
	var dns *net.DNSError
	var errno syscall.Errno
	var netErr net.Error
	switch {
	case errors.As(err, &dns):
		return "the host name cannot be resolved"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	}
	return "network failure"
}
