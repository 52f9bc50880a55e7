package delivery

// store sends the row write of a lib mode: from the position known to the unit's end.
func (n *steps) store(t State) {
	if n.free == nobody {
		return
	}
	q := n.me(&t)
	expected := q.Position
	if n.has(startFromSlot | unreadableIsEmpty) {
		expected = n.from.RowPosition
	}
	q.At = storing
	n.send(&t, n.free, rowCall, expected, q.First, q.Last)
	n.to(t, "sends row write %d -> %d", q.Position, n.position(q.Last))
}

func (n *steps) storeTimesOut(t State) {
	if t.Left.Timeouts == 0 {
		return
	}
	t.Left.Timeouts--
	n.me(&t).At = storeUnknown
	n.to(t, "gives up on the row write")
}

// resolveStore reads the row: a late write expects a position that is gone then.
func (n *steps) resolveStore(t State) {
	s, q := n.from, n.me(&t)
	switch {
	case s.RowEpoch != q.Epoch && !n.has(rowWithoutCompareAndSet):
		q.At = stopped
		n.to(t, "is fenced in the store")
	case s.RowPosition == n.position(q.Last):
		q.Position, q.Delivered, q.At = s.RowPosition, 0, willAck
		n.to(t, "finds the row written")
	case s.RowPosition != q.Position && !n.has(startFromSlot|rowWithoutCompareAndSet):
		n.halt(&t)
		n.to(t, "halts: own epoch, unexpected position")
	default:
		q.At = willStore
		n.to(t, "finds the row unwritten")
	}
}
