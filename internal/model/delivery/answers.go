package delivery

// call adds what can happen to an open call: its answer arrives, it is lost, or the
// other side executes it.
func (n *steps) call(k int) {
	if n.from.Calls[k].Stage == answered {
		n.hear(k)
		return
	}
	n.lose(k)
	switch n.from.Calls[k].Kind {
	case rowCall:
		n.writeRow(k)
	case claimCall:
		n.grantClaim(k)
	default:
		if n.Lib {
			n.libSink(k)
		} else {
			n.owningSink(k)
		}
	}
}

// lose drops a call before it ran, if its sender has given up or still can.
func (n *steps) lose(k int) {
	t := *n.from
	call, q := t.Calls[k], n.me(&t)
	if t.Left.Timeouts > 0 || q.Sequence != call.Sequence || q.At != waiting && q.At != claiming && q.At != storing {
		t.Calls[k] = Call{}
		n.to(t, "never reaches the other side with a call")
	}
}

// hear delivers an answer to the incarnation that waits for it.
func (n *steps) hear(k int) {
	t := *n.from
	call, q := t.Calls[k], n.me(&t)
	t.Calls[k] = Call{}
	if q.Pipelined == call.Sequence {
		q.Pipelined = 0
		if call.Answer != saysOK {
			q.At = unknown
		}
		n.to(t, "hears of its first unit")
		return
	}
	switch call.Kind {
	case claimCall:
		n.hearClaim(t, call)
	case rowCall:
		n.hearRow(t, call)
	default:
		n.hearUnit(t, call)
	}
}

func (n *steps) hearClaim(t State, call Call) {
	q := n.me(&t)
	if call.Answer != saysOK {
		q.At = stopped
		if n.owns() {
			q.At = hasSlot // reads again and claims once more
		}
		n.to(t, "claim refused")
		return
	}
	q.At = starting
	if !n.has(positionFromRead) {
		q.Position = call.Returned
	}
	q.Answered = false
	n.to(t, "has claimed, position %d", q.Position)
}

func (n *steps) hearRow(t State, call Call) {
	q := n.me(&t)
	switch {
	case call.Answer != saysOK:
		q.At = storeUnknown
		n.to(t, "row write matched nothing")
	case n.has(rowBeforeSink) && n.layout[q.Last].kind != idle:
		q.Position = n.position(q.Last)
		n.effect(&t, q.Last)
		q.At = willAck
		n.to(t, "has stored, then the sink does it")
	default:
		q.Position, q.Delivered, q.At = n.position(q.Last), 0, willAck
		n.to(t, "has stored %d", q.Position)
	}
}

func (n *steps) hearUnit(t State, call Call) {
	q := n.me(&t)
	switch call.Answer {
	case saysOK:
		if n.Lib {
			n.hearLibOK(t)
			return
		}
		q.Position = n.position(q.Last)
		q.Answered = n.has(noExpectedInFirstUnit)
		if n.has(ackWhatSinkReturned) {
			q.Position = call.Returned
		}
		q.At = willAck
		n.to(t, "hears OK up to item %d", q.Last)
	case saysFenced:
		q.At = stopped
		n.to(t, "is fenced, stops")
	case saysInstanceChanged:
		q.At = opening
		if n.has(verifyRowBeforeOpen) {
			q.At = verifying
		}
		n.to(t, "hears that the sink is a new instance")
	case saysBehind:
		q.At = unknown
		n.to(t, "hears that the sink is behind, decides again")
	}
}

func (n *steps) hearLibOK(t State) {
	q := n.me(&t)
	q.At = willStore
	if n.Batch {
		q.Delivered, q.At = q.Last+1, running
		if n.layout[q.Last].kind == message {
			q.At = willStore
		}
	}
	n.to(t, "hears OK for item %d", q.Last)
}
