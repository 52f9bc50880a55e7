package wal

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Defaults of Options.
const (
	// SenderTimeoutDefault is how long the server keeps a slot for a reader that has
	// fallen silent, and so the time a standby needs to take over.
	SenderTimeoutDefault  = 10 * time.Second
	StatusIntervalDefault = 5 * time.Second

	connectTimeoutDefault = 10 * time.Second
	nameBytesMax          = 63 // NAMEDATALEN - 1; Postgres cuts longer names silently
)

// Options says where to connect and what to read.
type Options struct {
	// DSN is a libpq address, URL or keywords; it may hold a password and is never
	// printed. Settings in it that are pinned here lose.
	DSN          string
	Slot         string
	Publications []string
	// Messages asks for logical messages too.
	Messages bool
	// Streaming asks for transactions in progress too, as far as the server keeps them out
	// of its memory, instead of each whole after its commit.
	Streaming bool
	// Temporary makes CreateSlot make a slot that ends with the connection.
	Temporary       bool
	ApplicationName string
	// SenderTimeout is set as wal_sender_timeout on the replication connection alone.
	SenderTimeout time.Duration
	// StatusInterval is the longest time between two status updates. A third of the
	// wal_sender_timeout that the server shows is taken if that is less.
	StatusInterval time.Duration
	// DialFunc replaces the dialer; for tests.
	DialFunc func(ctx context.Context, network, address string) (net.Conn, error)
	// NoNap switches the pause before a blocking read off; see nap.go.
	NoNap bool
	// Logger gets rare lines without values; nil is silent.
	Logger *slog.Logger
}

// withDefaults fills what was left zero.
func (o Options) withDefaults() Options {
	if o.SenderTimeout <= 0 {
		o.SenderTimeout = SenderTimeoutDefault
	}
	if o.StatusInterval <= 0 {
		o.StatusInterval = StatusIntervalDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate finds what can be found without a server. The error is a *core.Halt.
func (o Options) Validate() error {
	const op = "validate"
	if _, err := pgconn.ParseConfig(o.DSN); err != nil {
		// The parser's error can quote the address, password included.
		return core.NewHalt(core.HaltConfigInvalid, op, "the source address cannot be parsed")
	}
	if !validSlotName(o.Slot) {
		return core.NewHalt(core.HaltInvalidIdentifier, op, "slot name %q", o.Slot)
	}
	if len(o.Publications) == 0 {
		return core.NewHalt(core.HaltInvalidIdentifier, op, "no publication is named")
	}
	for _, name := range o.Publications {
		if name == "" || len(name) > nameBytesMax || strings.ContainsRune(name, 0) {
			return core.NewHalt(core.HaltInvalidIdentifier, op, "publication name %q", name)
		}
	}
	return nil
}

func validSlotName(name string) bool {
	if name == "" || len(name) > nameBytesMax {
		return false
	}
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return true
}
