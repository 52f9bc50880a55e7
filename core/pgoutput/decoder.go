package pgoutput

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// FrameMax is the largest message that is accepted: Postgres builds a message in one
// allocation of at most 1 GiB, and the copy envelope adds 25 bytes.
const FrameMax = 1<<30 + 25

// Options chooses what the decoder expects.
type Options struct {
	// Protocol is the proto_version that was asked for; 0 means 1, and no other is
	// handled yet: messages of 2 to 4 halt.
	Protocol int
}

// Decoder turns frames into messages. It holds the little state that decides whether a
// message is lawful where it stands, so one decoder serves one connection. It is not
// safe for use by several goroutines.
type Decoder struct {
	limit   int // FrameMax
	ignored uint64
	// inside is true between Begin and Commit; xid and lsn are the transaction's.
	inside bool
	xid    uint32
	lsn    core.LSN
}

// NewDecoder starts a decoder for a fresh connection.
func NewDecoder(o Options) *Decoder {
	if o.Protocol < 0 || o.Protocol > 1 {
		panic("pgoutput: only protocol 1 is handled")
	}
	return &Decoder{limit: FrameMax}
}

// Ignored counts messages that were lawfully passed over: a Stream Abort outside of a
// transaction, which some servers send although streaming was not asked for.
func (d *Decoder) Ignored() uint64 { return d.ignored }

// Decode reads one message, the body of an XLogData, into m. Every field of m is
// overwritten. The error is a *core.Halt: malformed_stream for bytes that break the
// format, unsupported_message for messages of another protocol version. It never
// panics. A message that was passed over has Kind KindStreamAbort and no error.
func (d *Decoder) Decode(frame []byte, m *Message) error {
	*m = Message{}
	if len(frame) == 0 {
		return d.halt(0, core.NewHalt(core.HaltMalformedStream, "decode", "an empty message"))
	}
	if len(frame) > d.limit {
		return d.halt(0, core.NewHalt(core.HaltMalformedStream, "decode",
			"a message of %d bytes, above the limit of %d", len(frame), d.limit))
	}
	r := reader{rest: frame[1:]}
	m.Kind = Kind(frame[0])
	switch m.Kind {
	case KindInsert:
		r.insert(m)
	case KindUpdate:
		r.update(m)
	case KindDelete:
		r.delete(m)
	case KindBegin:
		r.begin(m)
	case KindCommit:
		r.commit(m)
	case KindRelation:
		r.relation(m)
	case KindType:
		r.typ(m)
	case KindTruncate:
		r.truncate(m)
	case KindOrigin:
		r.origin(m)
	case KindMessage:
		r.message(m)
	case KindStreamAbort:
		d.streamAbort(&r)
	default:
		r.refuse("message %q (%s)", rune(m.Kind), m.Kind)
	}
	if r.fault == nil && len(r.rest) > 0 {
		r.fail("%d bytes left over", len(r.rest))
	}
	if r.fault != nil {
		return d.halt(m.Kind, r.fault)
	}
	d.follow(m)
	return nil
}

// follow remembers where in the stream the decoder stands. Whether the framing is
// lawful is the assembler's to judge.
func (d *Decoder) follow(m *Message) {
	switch m.Kind {
	case KindBegin:
		d.inside, d.xid, d.lsn = true, m.XID, m.LSN
	case KindCommit:
		d.inside, d.xid, d.lsn = false, 0, 0
	case KindStreamAbort:
		d.ignored++
	}
}

// streamAbort passes over the abort of a transaction of which nothing was sent.
func (d *Decoder) streamAbort(r *reader) {
	const short, long = 8, 24 // two xids; with streaming 'parallel' also LSN and time
	if d.inside {
		r.refuse("message 'A' (%s) inside a transaction", KindStreamAbort)
		return
	}
	if n := len(r.rest); n != short && n != long {
		r.fail("a body of %d bytes, not %d or %d", n, short, long)
		return
	}
	r.rest = nil
}

// halt says where the fault is: message kind and the transaction it stands in.
func (d *Decoder) halt(kind Kind, h *core.Halt) error {
	if kind != 0 && h.Code == core.HaltMalformedStream {
		h.Detail = kind.String() + ": " + h.Detail
	}
	h.XID, h.LSN = d.xid, d.lsn
	return h
}
