package snapshot

func (r *Run) initial() (t table) {
	t[1] = row{Plain: 10, Toast: 21}
	if r.Keys > 2 || !r.offers(opInsert) {
		t[2] = row{Plain: 10, Toast: 22}
	}
	return t
}

// change does what the i-th transaction does to the source's rows.
func (t *table) change(o operation, i int8) {
	switch o.Kind {
	case opUpdate:
		t[o.Key].Plain = i + 1
	case opUpdateToast, opInsert:
		t[o.Key] = row{Plain: i + 1, Toast: 30 + i}
	case opMove:
		t[o.To] = row{Plain: i + 1, Toast: t[o.Key].Toast}
		t[o.Key] = row{}
	case opDelete:
		t[o.Key] = row{}
	case opTruncate:
		*t = table{}
	}
}

// source is the table as a snapshot with these transactions shows it.
func (r *Run) source(s *state, visible uint8) table {
	t := r.initial()
	for i := range s.Length {
		if has(visible, i) {
			t.change(s.Log[i][0], i)
			t.change(s.Log[i][1], i)
		}
	}
	return t
}

// keys that a transaction locks.
func (t transaction) keys() (set uint8) {
	for _, o := range t {
		switch o.Kind {
		case opNone:
		case opTruncate:
			return 0xff
		case opMove:
			set |= bit(o.Key) | bit(o.To)
		default:
			set |= bit(o.Key)
		}
	}
	return set
}

// locked are the keys of transactions that are not visible yet.
func (s *state) locked() (set uint8) {
	for i := range s.Length {
		if !has(s.Visible, i) {
			set |= s.Log[i].keys()
		}
	}
	return set
}

// transactions gives every transaction that the source could commit now.
func (r *Run) transactions(s *state, emit func(transaction)) {
	now := r.source(s, 0xff)
	busy := s.Open.keys() | s.locked()
	free := func(t transaction) {
		if t.keys()&busy == 0 {
			emit(t)
		}
	}
	for _, kind := range r.Menu {
		if kind == opTruncate {
			free(transaction{{Kind: opTruncate}})
			continue
		}
		for key := int8(1); key <= r.Keys; key++ {
			switch present := now[key].Plain != 0; {
			case kind == opInsert && !present:
				free(transaction{{Kind: opInsert, Key: key}})
			case kind == opInsert || !present:
			case kind == opMove:
				r.moves(&now, key, free)
			default:
				free(transaction{{Kind: int8(kind), Key: key}})
			}
		}
	}
}

func (r *Run) moves(now *table, key int8, free func(transaction)) {
	for to := int8(1); to <= r.Keys; to++ {
		move := operation{Kind: opMove, Key: key, To: to}
		switch {
		case to == key:
		case now[to].Plain == 0:
			free(transaction{move})
		case r.FreedKey:
			free(transaction{{Kind: opDelete, Key: to}, move})
		}
	}
}

// sourceSteps: commits, and what becomes visible, flushed and copied.
func (n *steps) sourceSteps(s *state) {
	room := n.Transactions
	if s.Open[0].Kind != opNone {
		room-- // kept for the open writer
	}
	if s.Length < room {
		n.transactions(s, func(t transaction) { n.commit(s, t) })
	}
	for i := range s.Length {
		if !has(s.Visible, i) {
			after := *s
			after.Visible |= bit(i)
			n.emit(after, "becomes visible", i+1)
		}
	}
	if s.Flushed < s.Length {
		after := *s
		after.Flushed = after.Length
		n.emit(after, "WAL flushed", 0)
	}
	n.standbySteps(s)
	if n.Added {
		n.addedSteps(s)
	}
}

func (n *steps) commit(s *state, t transaction) {
	after := *s
	if n.Added && s.Altered == 0 {
		t[0].Unstreamed = 1
		t[1].Unstreamed = 1
		if t[1].Kind == opNone {
			t[1].Unstreamed = 0
		}
	}
	after.Log[after.Length] = t
	if !n.StreamedFirst || t[0].Kind == opTruncate {
		after.Visible |= bit(after.Length)
	}
	after.Length++
	if !n.VisibleFirst {
		after.Flushed = after.Length
	}
	n.emit(after, "source commits", after.Length)
}

func (n *steps) standbySteps(s *state) {
	if n.Failover && s.FailedOver == 0 {
		if s.Standby < s.Length {
			after := *s
			after.Standby++
			n.emit(after, "failover standby catches up", after.Standby)
		}
		if s.Length > 0 && s.Durable <= s.Standby { // else the start is refused
			after := *s
			after.FailedOver = 1
			for i := s.Standby; i < s.Length; i++ {
				after.Log[i] = transaction{}
			}
			after.Length, after.Flushed, after.Visible = s.Standby, s.Standby, below(s.Standby)
			n.reset(&after)
			n.emit(after, "failover", 0)
		}
	}
	if n.ReadStandby && s.Replayed < s.Flushed {
		after := *s
		after.Replayed++
		n.emit(after, "read standby replays", after.Replayed)
	}
}
