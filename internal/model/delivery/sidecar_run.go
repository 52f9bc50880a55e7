package delivery

// run delivers the next unit, or flushes, or finds that all is done.
func (n *steps) run(t State) {
	q := n.me(&t)
	above := q.Position
	if q.Delivered > 0 {
		above = n.position(q.Delivered - 1)
	}
	first := n.next(above, q.Start)
	if n.Lib && n.Batch && q.Delivered > 0 {
		flush := t
		f := n.me(&flush)
		f.First, f.Last, f.At = 0, f.Delivered-1, willStore
		n.to(flush, "flushes the batch")
	}
	if first == items {
		if q.Delivered == 0 {
			q.At = drained
			n.to(t, "has drained")
		}
		return
	}
	if n.free == nobody || n.runMutant(&t, first) {
		return
	}
	if q.Delivered > 0 && n.layout[first].kind != transaction {
		return // a message or an idle step: flush first
	}
	switch {
	case n.Lib && (n.layout[first].kind == idle || n.has(rowBeforeSink)):
		q.First, q.Last, q.At = first, first, willStore
		n.to(t, "will store up to item %d", first)
	default:
		n.sendUnits(t, first)
	}
}

// runMutant takes the shortcuts of some mutants; true means that nothing else happens.
func (n *steps) runMutant(t *State, first int8) bool {
	q, it := n.me(t), n.layout[first]
	if n.has(messagePastBatch) && q.Delivered > 0 && it.kind == message {
		n.effect(t, first)
		q.Delivered = first + 1
		if n.owns() {
			t.Confirmed = max(t.Confirmed, it.end)
		}
		n.to(*t, "delivers the message past the open batch and confirms %d", it.end)
		return true
	}
	if q.Delivered > 0 && it.kind != transaction {
		return false
	}
	if it.kind == idle && n.has(ackIdleUnstored) {
		q.Position, q.At = it.end, willAck
		n.to(*t, "will confirm the idle position without storing it")
		return true
	}
	if it.kind == idle && n.has(ackIdleBeforeStored) && t.Confirmed < it.end && n.owns() {
		t.Confirmed = it.end
		n.to(*t, "confirms the idle position %d before it is stored", it.end)
		return true
	}
	if n.has(messagePastBatch) && !n.Lib && it.kind == transaction && t.Effects[messageItem] == 0 && n.owns() {
		early := *t
		early.Effects[messageItem]++
		early.Confirmed = max(t.Confirmed, n.layout[messageItem].end)
		n.to(early, "delivers the message and confirms %d with transactions still in its batch", early.Confirmed)
	}
	return false
}

// sendUnits sends every unit that may begin with an item: it alone, or in batch mode any
// run of transactions.
func (n *steps) sendUnits(t State, first int8) {
	for last := first; last < items; last++ {
		if last > first && (!n.Batch || n.Lib || n.layout[last].kind != transaction || n.layout[first].kind != transaction) {
			break
		}
		u := t
		q := n.me(&u)
		q.First, q.Last, q.At = first, last, waiting
		expected := q.Position
		if n.has(noExpectedInFirstUnit) && !q.Answered {
			expected = 0
		}
		before := q.Sequence
		n.send(&u, n.free, unitCall, expected, first, last)
		if n.has(ackReceived) && n.owns() {
			u.Confirmed = max(u.Confirmed, n.layout[last].end)
		}
		if n.has(twoInFlight) && before < 2 && n.freeCalls > 1 && last+1 < items {
			n.sendSecond(u, last)
		}
		n.to(u, "sends items %d..%d, expecting %d", first, last, expected)
	}
}

// sendSecond sends the item after last without waiting.
func (n *steps) sendSecond(u State, last int8) {
	place := n.free
	for place = range u.Calls {
		if !u.Calls[place].Open {
			break
		}
	}
	q := n.me(&u)
	q.Pipelined = q.Sequence
	n.send(&u, place, unitCall, n.position(last), last+1, last+1)
	q.Last = last + 1
	n.to(u, "sends two units at once, up to item %d", last+1)
}

// wait gives up on an answer, if a timeout is left.
func (n *steps) wait(t State) {
	if n.has(ackIdleWhileOpen) && n.owns() && t.Confirmed < lastEnd {
		early := t
		early.Confirmed = lastEnd
		n.to(early, "confirms the idle position while a unit is open")
	}
	if t.Left.Timeouts > 0 {
		t.Left.Timeouts--
		n.me(&t).At = unknown
		n.to(t, "gives up: outcome unknown")
	}
}

// resolve decides what an unknown unit means.
func (n *steps) resolve(t State) {
	s, q := n.from, n.me(&t)
	q.Pipelined = 0
	switch {
	case n.Lib && n.has(unknownIsDone):
		q.Delivered, q.At = q.Last+1, willStore
		n.to(t, "takes unknown for done")
	case n.Lib:
		q.At = opening // instance, row, then the same transaction with a higher sequence
		if n.has(noSequence) {
			q.At = running
		}
		n.to(t, "will send it again")
	case n.has(unknownIsDone):
		q.Position, q.At = n.position(q.Last), willAck
		n.to(t, "takes unknown for done")
	case !n.has(rereadInSession):
		if n.owns() {
			t.Owner = nobody
		}
		q.At = again // the start procedure resolves all doubt
		n.to(t, "ends its session")
	case s.SinkEpoch != q.Epoch && !n.has(noFencing):
		q.At = stopped
		n.to(t, "is fenced")
	case s.SinkPosition < q.Position:
		q.At, t.Halted = halted, true
		n.to(t, "halts: the sink's checkpoint went back")
	default:
		q.Position, q.At = s.SinkPosition, willAck
		n.to(t, "reads the sink's checkpoint: %d", q.Position)
	}
}

// acknowledge tells Postgres the durable position, while the slot is ours.
func (n *steps) acknowledge(t State) {
	q := n.me(&t)
	position := q.Position
	if n.has(commitLSNForm) {
		for _, it := range n.layout {
			if it.kind == transaction && it.start == q.Position {
				position = it.end
			}
		}
	}
	if n.owns() {
		t.Confirmed = max(t.Confirmed, position)
	}
	q.At = running
	n.to(t, "confirms %d", position)
}
