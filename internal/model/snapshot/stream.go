package snapshot

// record notes one streamed operation in a window.
func (r *Run) record(c *chunk, o operation, i int8) {
	switch o.Kind {
	case opUpdate:
		if e := &c.Entries[o.Key]; e.State == entryNone || e.State == entryPartial {
			*e = entry{entryPartial, i + 1}
		}
	case opUpdateToast, opInsert:
		c.Entries[o.Key] = entry{State: entryFull}
	case opDelete:
		c.Entries[o.Key] = entry{State: entryDeleted}
	case opMove:
		if !r.has(newKeyOnly) {
			c.Entries[o.Key] = entry{State: entryDeleted}
		}
		c.Entries[o.To] = entry{State: entryHole}
		if r.has(mergeHoles) {
			c.Entries[o.To] = entry{entryPartial, i + 1}
		}
	case opTruncate:
		if !r.has(truncateKept) {
			c.Tainted = 1
		}
	}
}

func (r *Run) recordAll(s *state, i int8) {
	if r.has(noEntries) {
		return
	}
	for _, o := range s.Log[i] {
		if o.Kind == opNone || o.Unstreamed == 1 || s.Stale == 1 {
			continue
		}
		for x := range s.Chunks {
			if c := &s.Chunks[x]; c.Phase >= opened && c.Phase <= buffered {
				r.record(c, o, i)
			}
		}
	}
}

// receive takes the next transaction from the stream.
func (n *steps) receive(s *state) {
	ahead := n.Failover && !n.NoSlotSync && s.FailedOver == 0 && s.Received >= s.Standby
	if s.Received >= s.Flushed || ahead {
		return
	}
	after := *s
	i := s.Received
	if n.OldServer && s.Altered == 1 && i >= s.AlteredAt && s.Log[i][0].Unstreamed == 1 {
		after.Stale = 1
	}
	if n.OldServer && after.Stale == 1 { // the server holds the table for not published
		for y := range after.Log[i] {
			if after.Log[i][y].Kind != opNone {
				after.Log[i][y].Unstreamed = 1
			}
		}
	}
	after.Received++
	if !n.has(recordedAtDurable) {
		n.recordAll(&after, i)
	}
	again := n.Lib && !n.has(noRedeliveryRepair) && i < after.Highest
	if (after.Complete == 0 || again) && !n.has(noRepairList) {
		for _, o := range after.Log[i] {
			if o.Kind == opMove && o.Unstreamed == 0 && (after.Done != 3 || again || has(after.Repair, o.Key)) {
				after.Repair |= bit(o.To)
			}
		}
	}
	n.emit(after, "stream receives", after.Received)
}

// deliver hands any number of received transactions to the sink; the repair list is durable
// before the transaction that needs it.
func (n *steps) deliver(s *state) {
	if s.Repair&^s.RepairStored == 0 || n.has(noteNotAhead) {
		after := *s
		for i := s.delivered(n.Run); i < s.Received; i++ {
			for _, o := range after.Log[i] {
				if o.Unstreamed == 0 {
					n.sinkTakes(&after, o, i)
				}
			}
			if n.has(recordedAtDurable) {
				n.recordAll(&after, i)
			}
			to := after
			to.Applied = i + 1
			if n.Lib {
				to.Highest = max(to.Highest, to.Applied)
			} else {
				to.Durable = i + 1
			}
			n.emit(to, "sink applies up to", i+1)
		}
	}
	if n.Lib && s.Applied > s.Durable {
		after := *s
		after.Durable = s.Applied
		n.emit(after, "store writes checkpoint", after.Durable)
	}
	if s.Repair&^s.RepairStored != 0 {
		after := *s
		after.RepairStored |= after.Repair
		n.emit(after, "repair note durable", 0)
	}
}

// delivered is what the sink has answered.
func (s *state) delivered(r *Run) int8 {
	if r.Lib {
		return s.Applied
	}
	return s.Durable
}

// reset is what a crash or a reconnect leaves.
func (r *Run) reset(s *state) {
	if !r.has(noEpoch) {
		s.Chunks = [3]chunk{}
	}
	for x := range s.Chunks {
		c := &s.Chunks[x]
		if c.Phase != selected && c.Phase != buffered {
			*c = chunk{}
		}
		c.Entries, c.Tainted = [keysMax + 1]entry{}, 0
	}
	s.Start, s.Received, s.Applied = s.Durable, s.Durable, s.Durable
	s.Repair, s.Stale = s.RepairStored, 0
}
