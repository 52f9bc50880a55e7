package pgoutput

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// FrameMax is the largest message that is accepted: Postgres builds a message in one
// allocation of at most 1 GiB, and the copy envelope adds 25 bytes.
const FrameMax = 1<<30 + 25

// Options chooses what the decoder expects.
type Options struct {
	// Streaming says that transactions in progress were asked for (protocol 2 or 4,
	// option streaming). Without it their messages halt.
	Streaming bool
}

// Decoder turns frames into messages. It holds the little state that decides how a
// message is laid out and whether it is lawful where it stands, so one decoder serves one
// connection. It is not safe for use by several goroutines.
type Decoder struct {
	limit     int // FrameMax
	streaming bool
	ignored   uint64
	// inside is true between Begin and Commit, block between Stream Start and Stop; xid
	// and lsn are the transaction's, for halts.
	inside, block bool
	xid           uint32
	lsn           core.LSN
}

// NewDecoder starts a decoder for a fresh connection.
func NewDecoder(o Options) *Decoder {
	return &Decoder{limit: FrameMax, streaming: o.Streaming}
}

// Ignored counts messages that were lawfully passed over: a Stream Abort outside of a
// transaction, which some servers send although streaming was not asked for.
func (d *Decoder) Ignored() uint64 { return d.ignored }

// Decode reads one message, the body of an XLogData, into m. Every field of m is
// overwritten. The error is a *core.Halt: malformed_stream for bytes that break the
// format, unsupported_message for messages that were not asked for. It never panics. A
// message that was passed over has Kind KindStreamAbort, XID 0 and no error.
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
	if d.block && m.Kind.streamed() {
		m.XID, m.SubXID = d.xid, r.xid()
		m.Body = r.rest
	}
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
	default:
		d.stream(&r, m)
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
	case KindStreamStart:
		d.block, d.xid = true, m.XID
	case KindStreamStop:
		d.block, d.xid = false, 0
	case KindStreamAbort:
		if m.XID == 0 {
			d.ignored++
		}
	}
}

// halt says where the fault is: message kind and the transaction it stands in.
func (d *Decoder) halt(kind Kind, h *core.Halt) error {
	if kind != 0 && h.Code == core.HaltMalformedStream {
		h.Detail = kind.String() + ": " + h.Detail
	}
	h.XID, h.LSN = d.xid, d.lsn
	return h
}
