package snapshot

// A table that is added to the publication. What was written before the ALTER is never
// streamed, whenever its transaction commits; what the same transaction writes after it is.

func (n *steps) addedSteps(s *state) {
	if s.Altered == 0 && s.Open[0].Kind == opNone && s.Length < n.Transactions {
		n.transactions(s, func(t transaction) {
			if t[0].Kind == opTruncate || t[1].Kind != opNone {
				return
			}
			after := *s
			t[0].Unstreamed = 1
			after.Open = t
			n.emit(after, "writer opens", 0)
		})
	}
	if s.Altered == 1 && s.Open[0].Kind != opNone && s.Open[1].Kind == opNone && s.Length < n.Transactions {
		n.writesAgain(s)
	}
	if s.Open[0].Kind != opNone && s.Length < n.Transactions {
		after := *s
		after.Log[after.Length] = s.Open
		after.Open = transaction{}
		if !n.StreamedFirst {
			after.Visible |= bit(after.Length)
		}
		after.Length++
		after.Flushed = after.Length
		n.emit(after, "open writer commits", after.Length)
	}
	if s.Altered == 0 {
		after := *s
		after.Altered, after.AlteredAt = 1, s.Length
		n.emit(after, "ALTER PUBLICATION", 0)
	}
}

// writesAgain: the open writer touches its row once more after the ALTER.
func (n *steps) writesAgain(s *state) {
	now := n.source(s, 0xff)
	now.change(s.Open[0], 0)
	key := s.Open[0].Key
	if s.Open[0].Kind == opMove {
		key = s.Open[0].To
	}
	if now[key].Plain == 0 {
		return
	}
	after := *s
	after.Open[1] = operation{Kind: opUpdate, Key: key}
	n.emit(after, "writer writes again", 0)
	busy := s.locked()
	for to := int8(1); to <= n.Keys; to++ {
		if now[to].Plain == 0 && to != key && !has(busy, to) {
			after := *s
			after.Open[1] = operation{Kind: opMove, Key: key, To: to}
			n.emit(after, "writer moves the row", 0)
		}
	}
}

// addedBarrier is the writer wait of an added table: no window before every transaction
// that wrote ahead of the ALTER is over and visible. An old server reconnects after that.
func (n *steps) addedBarrier(s *state, barrier bool) bool {
	switch {
	case n.has(noAddedWait):
		return barrier && s.Altered == 1
	case s.Altered == 0, s.Open[0].Kind != opNone && s.Open[0].Unstreamed == 1, s.unstreamedUnseen():
		barrier = false
	}
	if n.OldServer && !n.has(noReconnect) && s.Reconnected == 0 {
		if barrier && s.Durable == s.Length {
			after := *s
			n.reset(&after)
			after.Reconnected = 1
			n.emit(after, "reconnect on purpose", 0)
		}
		return false
	}
	return barrier
}

func (s *state) unstreamedUnseen() bool {
	for i := range s.Length {
		if !has(s.Visible, i) && s.Log[i][0].Unstreamed == 1 {
			return true
		}
	}
	return false
}
