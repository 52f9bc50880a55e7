package delivery

// read is the first step of a session: the checkpoint, claiming nothing.
func (n *steps) read(t State) {
	s, q := n.from, n.me(&t)
	if q.At == fresh && n.who > 0 && s.Sidecars[n.who-1].At == fresh {
		return // incarnations are alike: they start in order
	}
	if s.Owner >= 0 && !n.has(slotAheadBeforeOwned) {
		return // it may read now, but would find the slot busy and read again
	}
	q.Position = s.SinkPosition
	if n.Lib {
		q.Position = s.RowPosition
	}
	q.At = hasRead
	if n.has(readAndStartInOneStep) {
		t.Owner, q.Start, q.At = n.who, max(q.Position, s.Confirmed), hasSlot
	}
	n.to(t, "reads the checkpoint without claiming: %d", q.Position)
}

// takeSlot starts replication at the position read; a busy slot means standby.
func (n *steps) takeSlot(t State) {
	s, q := n.from, n.me(&t)
	if n.has(slotAheadBeforeOwned) && s.Confirmed > q.Position {
		n.halt(&t)
		n.to(t, "halts before it has the slot: slot at %d, position read before", s.Confirmed)
		return
	}
	if s.Owner >= 0 {
		q.At = again
		n.to(t, "finds the slot busy")
		return
	}
	t.Owner = n.who
	q.Start = max(q.Position, s.Confirmed)
	if n.has(startPlusOne) {
		q.Start = max(q.Position+1, s.Confirmed)
	}
	q.At = hasSlot
	n.to(t, "takes the slot, starts at %d (confirmed %d)", q.Position, t.Confirmed)
}

// prepareClaim chooses the epoch: one above the stored. In lib modes the claim is one
// statement on the own store.
func (n *steps) prepareClaim(t State) {
	s, q := n.from, n.me(&t)
	if !n.Lib {
		q.Epoch = s.SinkEpoch + 1
		q.At = willClaim
		n.to(t, "reads the sink's epoch, will claim %d", q.Epoch)
		return
	}
	t.RowEpoch++
	q.Epoch = t.RowEpoch
	if !n.has(positionFromRead) {
		q.Position = t.RowPosition
	}
	q.Instance = 0
	q.At = starting
	n.to(t, "claims in the store: epoch %d, position %d", q.Epoch, q.Position)
}

func (n *steps) claim(t State) {
	if n.free == nobody {
		return
	}
	q := n.me(&t)
	q.At = claiming
	n.send(&t, n.free, claimCall, 0, 0, 0)
	n.to(t, "sends claim %d", q.Epoch)
}

func (n *steps) claimTimesOut(t State) {
	if t.Left.Timeouts == 0 {
		return
	}
	t.Left.Timeouts--
	if n.has(claimFromTheTop) {
		if n.owns() {
			t.Owner = nobody
		}
		n.me(&t).At = again
		n.to(t, "claim times out, ends its session")
		return
	}
	n.me(&t).At = willClaim
	for k := range t.Calls { // the same claim again is the same message
		if call := &t.Calls[k]; call.Open && call.From == n.who && call.Kind == claimCall {
			call.Sequence = -1
		}
	}
	n.to(t, "claim times out")
}

// begin compares slot and position, now that the slot is ours, and tells Postgres what
// is durable already.
func (n *steps) begin(t State) {
	s, q := n.from, n.me(&t)
	if !n.owns() {
		q.At = stopped
		n.to(t, "lost the slot, stops")
		return
	}
	if n.has(unreadableIsEmpty) && s.Left.Timeouts > 0 {
		n.beginFromNothing(t)
	}
	if s.Confirmed > q.Position && !n.has(noSlotAheadTest) {
		n.halt(&t)
		n.to(t, "halts: slot at %d, checkpoint below", s.Confirmed)
		return
	}
	trusting := n.has(noReconnectBelowStart | startPlusOne | noSlotAheadTest | commitLSNForm | storeCommitLSN)
	if q.Position < q.Start && !trusting {
		t.Owner = nobody
		q.At = again
		n.to(t, "claimed position %d is below its start %d, connects again", q.Position, q.Start)
		return
	}
	t.Confirmed = max(s.Confirmed, q.Position)
	if n.has(startFromSlot) {
		q.Position, q.Start, t.Confirmed = 0, s.Confirmed, s.Confirmed
	}
	q.At = n.afterBegin()
	n.to(t, "streams, position %d, confirms %d", q.Position, t.Confirmed)
}

func (n *steps) beginFromNothing(t State) {
	q := n.me(&t)
	t.Left.Timeouts--
	q.Position, q.Start, q.At = 0, n.from.Confirmed, running
	if n.Lib {
		q.At = opening
	}
	n.to(t, "cannot read the checkpoint, takes it as empty, streams from the slot (%d)", q.Start)
}

func (n *steps) afterBegin() phase {
	switch {
	case !n.Lib:
		return running
	case n.has(verifyRowBeforeOpen):
		return verifying
	}
	return opening
}

// open learns the sink's instance (lib modes); the sink remembers the epoch.
func (n *steps) open(t State) {
	s, q := n.from, n.me(&t)
	switch {
	case n.has(noMemoryFence | openReadsOnly):
	case s.SeenEpoch > q.Epoch:
		q.At = stopped
		n.to(t, "is fenced at open")
		return
	default:
		if q.Epoch > s.SeenEpoch {
			t.SeenSequence = 0
		}
		t.SeenEpoch = q.Epoch
	}
	q.Instance = s.Instance
	q.At = verifying
	if n.has(verifyRowBeforeOpen | noVerify) {
		q.At = running
	}
	n.to(t, "opens sink instance %d", q.Instance)
}

// verify looks at the row once more: whoever still owns it after learning the instance
// knows that a successor speaks to this instance or a later one.
func (n *steps) verify(t State) {
	q := n.me(&t)
	if n.from.RowEpoch != q.Epoch {
		q.At = stopped
		n.to(t, "is fenced in the store")
		return
	}
	q.At = running
	if n.has(verifyRowBeforeOpen) {
		q.At = opening
	}
	n.to(t, "still owns the store row")
}
