package wal

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// SlotState is a slot as the catalog shows it. Fields that the server's major does not
// have are zero (https://www.postgresql.org/docs/current/view-pg-replication-slots.html).
type SlotState struct {
	Name    string
	Present bool
	// Type is "logical" or "physical".
	Plugin, Type, Database string
	// Active: a session streams from it, ActivePID on the server.
	Active    bool
	ActivePID uint32
	// ActiveSince, ActiveApplication and ActiveAddress describe that session; zero where
	// this role may not see it.
	ActiveSince                      time.Time
	ActiveApplication, ActiveAddress string
	// ConfirmedFlush is the position up to which the slot was told that all is done.
	ConfirmedFlush, RestartLSN core.LSN
	// WALStatus is reserved, extended, unreserved or lost.
	WALStatus string
	// SafeWALSize is how many bytes of WAL may be written before the slot is lost; nil
	// where there is no limit or it is lost.
	SafeWALSize *int64
	// InvalidationReason is known from 17 on.
	InvalidationReason string
	// Conflicting is known from 16 on; 16 itself sets it for a slot lost by size too.
	Conflicting bool
	TwoPhase    bool
	Temporary   bool
	// Synced and Failover are known from 17 on.
	Synced, Failover bool

	// ConnectedTo is the database of the connection that asked; WALLevel the server's.
	ConnectedTo, WALLevel string
}

// Invalidated reports whether the slot can never stream again.
func (s SlotState) Invalidated() bool {
	return s.Present && (s.WALStatus == "lost" || s.InvalidationReason != "" || s.Conflicting)
}

// Invalidation is why the slot can never stream again, as Postgres words it, what keeps it
// from coming again, and what is lost; empty while it can.
func (s SlotState) Invalidation() string {
	reason := s.InvalidationReason
	switch {
	case !s.Invalidated():
		return ""
	case reason != "":
	case s.Conflicting && s.RestartLSN != 0:
		reason = "conflict" // 16 takes the position only from a slot that is lost by size
	case s.WALStatus == "lost":
		reason = "wal_removed"
	default:
		reason = "conflict"
	}
	if advice := invalidationAdvice[reason]; advice != "" {
		reason += " (" + advice + ")"
	}
	return reason + "; what was committed after " + s.ConfirmedFlush.String() + " can no longer be streamed"
}

var invalidationAdvice = map[string]string{
	"wal_removed":            "its WAL was removed; raise max_slot_wal_keep_size",
	"idle_timeout":           "nobody read from it for long; raise idle_replication_slot_timeout",
	"rows_removed":           "the primary removed rows that it needs; set hot_standby_feedback, with a slot for the standby at the primary",
	"conflict":               "recovery removed what it needs; set hot_standby_feedback, with a slot for the standby at the primary",
	"wal_level_insufficient": "the primary's wal_level was below logical",
}

// Obstacle is the halt that forbids to stream from this slot here, or nil. A slot that
// is absent or in use is no obstacle: both are decided elsewhere.
func (s SlotState) Obstacle() *core.Halt {
	halt := func(code core.HaltCode, format string, args ...any) *core.Halt {
		return core.NewHalt(code, "slot", format, args...)
	}
	switch {
	case s.WALLevel != "logical":
		return halt(core.HaltWALLevel, "wal_level is %q", s.WALLevel)
	case !s.Present:
		return nil
	case s.Type != "logical":
		return halt(core.HaltSlotPlugin, "slot %q is a %s slot", s.Name, s.Type)
	case s.Plugin != "pgoutput":
		return halt(core.HaltSlotPlugin, "slot %q belongs to plugin %q", s.Name, s.Plugin)
	case s.Database != s.ConnectedTo:
		return halt(core.HaltSlotDatabase, "slot %q is of database %q, the connection of %q", s.Name, s.Database, s.ConnectedTo)
	case s.Invalidated():
		return halt(core.HaltSlotInvalidated, "slot %q: %s", s.Name, s.Invalidation())
	case s.TwoPhase:
		return halt(core.HaltSlotTwoPhase, "slot %q", s.Name)
	}
	return nil
}

// Busy describes the holder.
func (s SlotState) Busy() *SlotBusyError {
	return &SlotBusyError{
		Slot: s.Name, PID: s.ActivePID, Since: s.ActiveSince, Application: s.ActiveApplication, Address: s.ActiveAddress,
	}
}

const slotColumns = 20

// slotQuery always answers one row of text, with an empty type when the slot is absent.
func slotQuery(major int, slot string) string {
	since := func(first int, column, otherwise string) string {
		if major >= first {
			return column
		}
		return otherwise
	}
	return `SELECT coalesce(s.plugin, ''), coalesce(s.slot_type, ''), coalesce(s.database, ''),
 coalesce(s.active, false), coalesce(s.active_pid, 0),
 coalesce(pg_catalog.date_part('epoch', a.backend_start), 0), coalesce(a.application_name, ''),
 coalesce(s.confirmed_flush_lsn, '0/0'), coalesce(s.restart_lsn, '0/0'),
 coalesce(s.wal_status, ''), coalesce(s.safe_wal_size::text, ''),
 coalesce(` + since(17, "s.invalidation_reason", "NULL") + `, ''),
 coalesce(` + since(16, "s.conflicting", "NULL") + `, false), coalesce(s.two_phase, false), coalesce(s.temporary, false),
 coalesce(` + since(17, "s.synced", "NULL") + `, false), coalesce(` + since(17, "s.failover", "NULL") + `, false),
 pg_catalog.current_database(), pg_catalog.current_setting('wal_level'),
 coalesce(pg_catalog.host(a.client_addr), '')
FROM (SELECT ` + quoteLiteral(slot) + `::name AS slot) want
LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = want.slot
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid`
}

// parseSlot reads the columns of slotQuery in their order.
func parseSlot(row []string) (s SlotState, err error) {
	flag := func(i int) bool { return row[i] == "t" }
	s = SlotState{
		Present: row[1] != "", Plugin: row[0], Type: row[1], Database: row[2], Active: flag(3),
		ActiveApplication: row[6], WALStatus: row[9], InvalidationReason: row[11], Conflicting: flag(12),
		TwoPhase: flag(13), Temporary: flag(14), Synced: flag(15), Failover: flag(16),
		ConnectedTo: row[17], WALLevel: row[18], ActiveAddress: row[19],
	}
	pid, err := strconv.ParseUint(row[4], 10, 32)
	if err != nil {
		return s, fmt.Errorf("active_pid is no number")
	}
	s.ActivePID = uint32(pid)
	since, err := strconv.ParseFloat(row[5], 64)
	if err != nil {
		return s, fmt.Errorf("backend_start is no time")
	}
	if since > 0 {
		s.ActiveSince = time.UnixMicro(int64(since * 1e6)).UTC()
	}
	if s.ConfirmedFlush, err = core.ParseLSN(row[7]); err != nil {
		return s, err
	}
	if s.RestartLSN, err = core.ParseLSN(row[8]); err != nil {
		return s, err
	}
	if row[10] != "" {
		safe, err := strconv.ParseInt(row[10], 10, 64)
		if err != nil {
			return s, fmt.Errorf("safe_wal_size is no number")
		}
		s.SafeWALSize = &safe
	}
	return s, nil
}

// readSlot asks the catalog on any kind of connection.
func readSlot(ctx context.Context, pg *pgconn.PgConn, slot string) (SlotState, error) {
	major, err := serverMajor(pg.ParameterStatus("server_version"))
	if err != nil {
		return SlotState{}, err
	}
	rows, err := simpleQuery(ctx, pg, slotQuery(major, slot))
	if err != nil {
		return SlotState{}, err
	}
	if len(rows) != 1 || len(rows[0]) != slotColumns {
		return SlotState{}, core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "pg_replication_slots answers in another shape")
	}
	state, err := parseSlot(rows[0])
	if err != nil {
		return SlotState{}, core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "pg_replication_slots: %v", err)
	}
	state.Name = slot
	return state, nil
}
