package pgoutput

// stream reads the messages of transactions in progress, and refuses whatever else is
// left: two-phase commit, and what no version of the protocol has.
func (d *Decoder) stream(r *reader, m *Message) {
	switch {
	case m.Kind == KindStreamAbort && d.inside:
		r.refuse("message 'A' (%s) inside a transaction", m.Kind)
	case m.Kind == KindStreamAbort && !d.streaming:
		r.passOverAbort()
	case !d.streaming:
		r.refuse("message %q (%s)", rune(m.Kind), m.Kind)
	case m.Kind == KindStreamStart:
		m.XID = r.xid()
		m.First = r.flags(1) == 1
	case m.Kind == KindStreamStop:
	case m.Kind == KindStreamCommit:
		m.XID = r.xid()
		r.commit(m)
	case m.Kind == KindStreamAbort:
		r.abort(m)
	default:
		r.refuse("message %q (%s)", rune(m.Kind), m.Kind)
	}
}

// A Stream Abort holds two xids; with streaming 'parallel' also LSN and time.
const abortShort, abortLong = 8, 24

func (r *reader) abort(m *Message) {
	long := len(r.rest) == abortLong
	m.XID, m.SubXID = r.xid(), r.xid()
	if !long {
		return
	}
	if m.LSN = r.lsn(); m.LSN == 0 && r.fault == nil {
		r.fail("an abort record at 0/0")
	}
	m.Time = int64(r.uint64())
}

// passOverAbort leaves out the abort of a transaction of which nothing was sent.
func (r *reader) passOverAbort() {
	if n := len(r.rest); n != abortShort && n != abortLong {
		r.fail("a body of %d bytes, not %d or %d", n, abortShort, abortLong)
		return
	}
	r.rest = nil
}

// xid reads the id of a transaction, which is never 0.
func (r *reader) xid() uint32 {
	id := r.uint32()
	if id == 0 {
		r.fail("transaction id 0")
	}
	return id
}
