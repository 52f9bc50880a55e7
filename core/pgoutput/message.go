package pgoutput

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Letters that say which row image follows.
const (
	OldNone byte = 0
	OldKey  byte = 'K' // the replica identity's columns, the others NULL
	OldRow  byte = 'O' // the whole old row
	newRow  byte = 'N'
)

// Message is one decoded message. It is flat so that a caller can reuse one for the
// whole stream: Decode overwrites every field. Which fields are set follows from Kind.
//
// Tuples and the bytes of a LogicalMessage alias the frame; Relation, Type, Truncate
// and Origin own their memory.
type Message struct {
	Kind Kind
	// XID is the transaction's id (Begin).
	XID uint32
	// LSN is the commit record's start (Begin, Commit), the origin's commit LSN
	// (Origin) or the END of the message's record (Message).
	LSN core.LSN
	// EndLSN is the end of the commit record (Commit): a position.
	EndLSN core.LSN
	// Time is the commit time in microseconds since 2000-01-01 UTC (Begin, Commit).
	Time int64

	RelationOID uint32
	// OldKind is OldNone, OldKey or OldRow and says what Old holds.
	OldKind byte
	// HasNew is true for Insert and Update.
	HasNew   bool
	Old, New Tuple

	Relation *core.Relation
	Type     *Type
	Truncate *Truncate
	Origin   string
	Message  *LogicalMessage
}

// Type describes a type that is not built in. For a domain Postgres sends the
// domain's OID with the schema and name of its base type; Schema "" is pg_catalog.
type Type struct {
	OID          uint32
	Schema, Name string
}

// Truncate lists the published tables of one TRUNCATE statement.
type Truncate struct {
	OIDs                     []uint32
	Cascade, RestartIdentity bool
}

// LogicalMessage is the body of a message written by pg_logical_emit_message. Both
// fields are user data.
type LogicalMessage struct {
	Transactional   bool
	Prefix, Content []byte
}

const postgresEpochMicros = 946_684_800 * 1_000_000 // 2000-01-01 UTC in Unix microseconds

// Time converts microseconds since 2000-01-01 UTC, Postgres' own count.
func Time(us int64) time.Time { return time.UnixMicro(us + postgresEpochMicros).UTC() }
