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
// Tuples, Body and the bytes of a LogicalMessage alias the frame; Relation, Type, Truncate
// and Origin own their memory.
type Message struct {
	Kind Kind
	// OldKind is OldNone, OldKey or OldRow and says what Old holds.
	OldKind byte
	// HasNew is true for Insert and Update.
	HasNew bool
	// First marks the first block of a transaction on this connection (Stream Start).
	First bool
	// XID is the transaction's id (Begin), or the top transaction's (Stream Start, Commit
	// and Abort, and wherever SubXID is set).
	XID uint32
	// SubXID is the id of the subtransaction, which is the top's own for what no savepoint
	// holds: of a message between Stream Start and Stop, and of what a Stream Abort rolls
	// back. 0 everywhere else.
	SubXID uint32
	// RelationOID is the relation of a row or description.
	RelationOID uint32
	// LSN is the commit record's start (Begin, Commit, Stream Commit), the origin's commit
	// LSN (Origin, 0 inside a stream), the END of the message's record (Message) or the
	// abort record (Stream Abort, where the server tells it).
	LSN core.LSN
	// EndLSN is the end of the commit record (Commit, Stream Commit): a position.
	EndLSN core.LSN
	// Time is the commit time in microseconds since 2000-01-01 UTC (Begin, Commit, Stream
	// Commit), or the abort's where its LSN is told.
	Time int64

	Old, New Tuple

	Relation *core.Relation
	Type     *Type
	Truncate *Truncate
	Origin   string
	Message  *LogicalMessage

	// Relations is never set by the decoder: whoever can ask the catalog adds to a Stream
	// Commit what it says of the relations that the transaction described.
	Relations []*core.Relation
	// Body is set where SubXID is, but not for Stream Abort: what stands behind tag and id,
	// the rest of the message as protocol 1 would have sent it. It aliases the frame.
	Body []byte
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
