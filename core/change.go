package core

import "time"

// Op is the kind of a change. The numbers are those of the wire contract.
type Op uint8

// The five operations.
const (
	OpInsert Op = iota + 1
	OpUpdate
	OpDelete
	OpTruncate
	// OpMessage is a transactional logical message, in order with the rows around it.
	OpMessage
)

// String names the operation in lower case.
func (o Op) String() string {
	switch o {
	case OpInsert:
		return "insert"
	case OpUpdate:
		return "update"
	case OpDelete:
		return "delete"
	case OpTruncate:
		return "truncate"
	case OpMessage:
		return "message"
	}
	return "unknown"
}

// OldKind says what the old image of a change holds.
type OldKind uint8

const (
	// OldNone: the stream carried no old image; the key did not change.
	OldNone OldKind = iota
	// OldKey: identity columns only; all others are ValueAbsent.
	OldKey
	// OldFull: the whole old row (REPLICA IDENTITY FULL).
	OldFull
)

// Change is one row event, truncate or transactional message. Its place in the
// transaction is its index, counted from 0.
type Change struct {
	Op       Op
	OldKind  OldKind
	Relation *Relation // nil for OpTruncate and OpMessage
	Old      Tuple
	New      Tuple
	Truncate *Truncate
	Message  *Message
}

// Truncate names all tables of one TRUNCATE statement that are published.
type Truncate struct {
	Relations       []*Relation
	Cascade         bool
	RestartIdentity bool
}

// Message is a logical decoding message (pg_logical_emit_message). Prefix and content
// are user data and appear in no log, error or metric.
type Message struct {
	Transactional bool
	// LSN is the end of the message's record, which makes it a position.
	LSN     LSN
	Prefix  []byte
	Content []byte
}

// HeartbeatPrefix is the prefix of our own logical messages, which keep the slot of a
// quiet database moving. They carry nothing and no sink is told of them.
const HeartbeatPrefix = "replicant.heartbeat"

// Transaction is one committed source transaction, or the idle gap between two when it
// has no changes. CommitLSN is identity only and is never compared with a position.
type Transaction struct {
	XID        uint32
	CommitLSN  LSN
	EndLSN     LSN
	CommitTime time.Time
	Origin     string
	Changes    []Change
	// Size is the encoded size of the changes in bytes, an upper bound that is off by a
	// few bytes a change; see Change.EncodedMax.
	Size int
}

// EncodedMax is the size of this change as a field of a wire Transaction. Rows count
// exactly; the relation's index is counted at its widest, 3 bytes.
func (c *Change) EncodedMax() int {
	const opField, relationIndexMax, oldKindField = 2, 1 + 3, 2
	n := opField
	if c.Relation != nil {
		n += relationIndexMax
	}
	if !c.New.IsZero() {
		n += fieldSize(len(c.New.packed))
	}
	if !c.Old.IsZero() {
		n += fieldSize(len(c.Old.packed)) + oldKindField
	}
	if c.Truncate != nil {
		const flags, header, index = 4, 8, 3
		n += header + flags + index*len(c.Truncate.Relations)
	}
	if c.Message != nil {
		const transactional, lsn = 2, 11
		n += fieldSize(transactional + lsn + fieldSize(len(c.Message.Prefix)) + fieldSize(len(c.Message.Content)))
	}
	return fieldSize(n)
}

// fieldSize is tag, length and body of a length-delimited field with a one-byte tag.
func fieldSize(body int) int {
	n := 2
	for v := body; v >= 0x80; v >>= 7 {
		n++
	}
	return n + body
}

// EncodedMax bounds the size of the relation as a field of a request.
func (r *Relation) EncodedMax() int {
	const header, perColumn = 40, 48
	n := header + len(r.Schema) + len(r.Name)
	for i := range r.Columns {
		n += perColumn + len(r.Columns[i].Name) + len(r.Columns[i].TypeName)
	}
	return n
}
