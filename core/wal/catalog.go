package wal

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Catalog asks the source's catalog over ordinary connections. It changes nothing at
// the source, but for Heartbeat, which writes an empty logical message. Its methods may be called by several goroutines; they take turns, except
// that Describe has a connection of its own.
//
// A connection that is lost is opened again by the next call, unless it held the lock
// of Lock: then the lock is lost, and every call says so.
type Catalog struct {
	options Options
	main    session
	types   session
	known   map[uint32]typeFacts // guarded by types' turn
	visible uint32               // the transaction that was last seen to be; guarded by types' turn
	locked  string               // the slot whose lock main holds; guarded by main's turn
}

// OpenCatalog connects with the pinned settings.
func OpenCatalog(ctx context.Context, o Options) (*Catalog, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	c := &Catalog{options: o, main: newSession(o), types: newSession(o), known: map[uint32]typeFacts{}}
	if err := c.main.use(ctx, func(*pgconn.PgConn) error { return nil }); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the connections and with them a lock that is held.
func (c *Catalog) Close() error {
	return errors.Join(c.main.close(), c.types.close())
}

// ServerInfo is what a server says of itself.
type ServerInfo struct {
	// Version is server_version_num, such as 160014.
	Version    int
	InRecovery bool
	WALLevel   string
	// SenderTimeout is what applies to others; the replication connection sets its own.
	SenderTimeout time.Duration
}

// Server asks version and settings.
func (c *Catalog) Server(ctx context.Context) (ServerInfo, error) {
	row, err := c.row(ctx, 4, `SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.pg_is_in_recovery(),
 pg_catalog.current_setting('wal_level'), (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout')`)
	if err != nil {
		return ServerInfo{}, err
	}
	version, errVersion := strconv.Atoi(row[0])
	timeout, errTimeout := strconv.Atoi(row[3])
	if errVersion != nil || errTimeout != nil {
		return ServerInfo{}, core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "the server's settings cannot be read")
	}
	return ServerInfo{
		Version: version, InRecovery: row[1] == "t", WALLevel: row[2],
		SenderTimeout: time.Duration(timeout) * time.Millisecond,
	}, nil
}

// Slot reads a slot's state. A slot that does not exist is no error.
func (c *Catalog) Slot(ctx context.Context, name string) (state SlotState, err error) {
	err = c.main.use(ctx, func(pg *pgconn.PgConn) error {
		state, err = readSlot(ctx, pg, name)
		return err
	})
	return state, err
}

// MissingPublications lists those of names that do not exist, in the given order.
func (c *Catalog) MissingPublications(ctx context.Context, names []string) ([]string, error) {
	var missing []string
	for _, name := range names {
		row, err := c.row(ctx, 1, `SELECT pg_catalog.count(*) FROM pg_catalog.pg_publication WHERE pubname = `+quoteLiteral(name))
		if err != nil {
			return nil, err
		}
		if row[0] == "0" {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// CurrentLSN is the end of the server's WAL; in recovery the end of what was replayed.
func (c *Catalog) CurrentLSN(ctx context.Context) (core.LSN, error) {
	row, err := c.row(ctx, 1, `SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
 ELSE pg_catalog.pg_current_wal_lsn() END`)
	if err != nil {
		return 0, err
	}
	at, err := core.ParseLSN(row[0])
	if err != nil {
		return 0, core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "the server's WAL position cannot be read")
	}
	return at, nil
}

// Lock takes the bootstrap lock of a slot: a session advisory lock that two sidecars
// cannot hold at once. It does not wait; held tells whether it is ours. While it is
// held, a lost connection is an error of every later call.
func (c *Catalog) Lock(ctx context.Context, slot string) (held bool, err error) {
	err = c.main.use(ctx, func(pg *pgconn.PgConn) error {
		if c.locked == slot {
			held = true
			return nil
		}
		rows, err := simpleQuery(ctx, pg, `SELECT pg_catalog.pg_try_advisory_lock(`+lockKey(slot)+`)`)
		if err != nil {
			return err
		}
		if held = len(rows) == 1 && rows[0][0] == "t"; held {
			c.locked, c.main.pinned = slot, true
		}
		return nil
	})
	return held, err
}

// Unlock gives the bootstrap lock back. It is no error when it is not held.
func (c *Catalog) Unlock(ctx context.Context) error {
	return c.main.use(ctx, func(pg *pgconn.PgConn) error {
		if c.locked == "" {
			return nil
		}
		if _, err := simpleQuery(ctx, pg, `SELECT pg_catalog.pg_advisory_unlock(`+lockKey(c.locked)+`)`); err != nil {
			return err
		}
		c.locked, c.main.pinned = "", false
		return nil
	})
}

// lockKey is 64 bits of a hash over the slot's name, in decimal. Advisory locks are a
// database's own, as slots are.
func lockKey(slot string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte("replicant-sidecar/bootstrap/" + slot))
	return strconv.FormatInt(int64(h.Sum64()), 10) + "::bigint"
}

// row runs a query that must answer one row of that many columns.
func (c *Catalog) row(ctx context.Context, columns int, sql string) (row []string, err error) {
	err = c.main.use(ctx, func(pg *pgconn.PgConn) error {
		rows, err := simpleQuery(ctx, pg, sql)
		if err != nil {
			return err
		}
		if len(rows) != 1 || len(rows[0]) != columns {
			return core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "a catalog query is answered in another shape")
		}
		row = rows[0]
		return nil
	})
	return row, err
}

// Heartbeat writes a logical message without content into the source's WAL, so that a
// slot of a quiet database moves. A standby cannot.
func (c *Catalog) Heartbeat(ctx context.Context) error {
	_, err := c.row(ctx, 1, "SELECT pg_catalog.pg_logical_emit_message(false, '"+core.HeartbeatPrefix+"', '')::text")
	return err
}
