package pgstore

import (
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// TableDefault is the table's name where none is given.
const TableDefault = "replicant_checkpoints"

// CallTimeoutDefault bounds a statement at the server; a call of the store ends a little
// later at the latest.
const CallTimeoutDefault = 10 * time.Second

const (
	// graceTime is what a call may take beyond its statement: connecting, mostly.
	graceTime    = 5 * time.Second
	nameBytesMax = 63 // NAMEDATALEN - 1; Postgres cuts longer names silently
)

// Options says where the table is.
type Options struct {
	// DSN is a libpq address, URL or keywords; it may hold a password and is never
	// printed. The table is looked for along the search path of its role.
	DSN string
	// Table is the table's plain name, any Postgres identifier; TableDefault when empty.
	Table string
	// Publications are those that the stream reads at its source. Where the store is in
	// the same database, a table that one of them publishes is refused: each position
	// would be a change to deliver.
	Publications []string
	CallTimeout  time.Duration
	// Logger gets rare lines without values; nil is silent.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Table == "" {
		o.Table = TableDefault
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = CallTimeoutDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// check finds what can be found without a server.
func (o Options) check() error {
	if _, err := pgconn.ParseConfig(o.DSN); err != nil {
		// The parser's error can quote the address, password included.
		return core.NewHalt(core.HaltConfigInvalid, "store", "the address of the checkpoint store cannot be parsed")
	}
	if len(o.Table) > nameBytesMax || strings.ContainsRune(o.Table, 0) {
		return core.NewHalt(core.HaltInvalidIdentifier, "store", "the table's name has 1 to %d bytes", nameBytesMax)
	}
	return nil
}

// quote quotes an identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal quotes a text; standard_conforming_strings is on.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// deadline is the longest that a call takes.
func (o Options) deadline() time.Duration { return o.CallTimeout + graceTime }
