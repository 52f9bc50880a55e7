package delivery

// environment adds what nobody asked for: freed slots, restarts, crashes, foreign hands.
func (n *steps) environment() {
	s := n.from
	n.who = nobody
	if s.Owner >= 0 && n.somebodyWaits(s.Owner) {
		t := *s
		t.Owner = nobody
		n.to(t, "the walsender of #%d ends, the slot is free", s.Owner+1)
	}
	if s.Left.SinkRestarts > 0 && s.Left.Timeouts > 0 {
		t := *s
		t.Left.SinkRestarts--
		t.Instance++
		t.SeenEpoch, t.SeenSequence = 0, 0
		for k := range t.Calls {
			if call := &t.Calls[k]; call.Open && call.Stage != inNetwork && call.Kind != rowCall {
				*call = Call{}
			}
		}
		n.to(t, "the sink process restarts")
	}
	if s.Left.Regresses > 0 && s.Confirmed > consistentPoint {
		t := *s
		t.Left.Regresses--
		t.Confirmed, t.Owner = consistentPoint, nobody
		n.to(t, "the upstream crashes: slot back at %d", t.Confirmed)
	}
	if s.Left.Advances > 0 && s.Owner < 0 && n.somebodyWaits(nobody) {
		for i, it := range n.layout {
			if it.end > s.Confirmed && i != messageItem {
				t := *s
				t.Left.Advances--
				t.Confirmed, t.Foreign = it.end, true
				n.to(t, "somebody moves the slot to %d", t.Confirmed)
			}
		}
	}
	if s.Left.Restores > 0 {
		n.restore()
	}
}

// somebodyWaits reports whether another incarnation is there to take the slot.
func (n *steps) somebodyWaits(owner int8) bool {
	for i := range n.Sidecars {
		if n.from.Sidecars[i].At <= hasRead && int8(i) != owner {
			return true
		}
	}
	return false
}

// restore brings the checkpoint's store back to the position before its newest unit.
func (n *steps) restore() {
	t := *n.from
	now := t.SinkPosition
	if n.Lib {
		now = t.RowPosition
	}
	if now <= consistentPoint {
		return
	}
	t.Left.Restores--
	t.Foreign = true
	before := int8(consistentPoint)
	for i := range int8(items) {
		if n.position(i) < now {
			before = max(before, n.position(i))
		}
	}
	if n.Lib {
		t.RowPosition = before
	} else { // the rows go back with it
		t.SinkPosition, t.LastEffect = before, 0
		for i := range int8(items) {
			if n.layout[i].end > before {
				t.Effects[i] = 0
			} else if t.Effects[i] > 0 {
				t.LastEffect = i + 1
			}
		}
	}
	n.to(t, "the store is restored to %d", before)
}
