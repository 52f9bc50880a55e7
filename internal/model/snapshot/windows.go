package snapshot

// barrier: every transaction that a former epoch received is visible.
func (n *steps) barrier(s *state) bool {
	barrier := s.Visible&below(s.Start) == below(s.Start) || n.has(noWriterWait) || n.ReadStandby
	if n.Added {
		return n.addedBarrier(s, barrier)
	}
	return barrier
}

// runSteps are the steps of the copy.
func (n *steps) runSteps(s *state) {
	delivered := s.delivered(n.Run) == s.Received || !n.inOrder()
	barrier := n.barrier(s)
	if s.Cleared == 0 && !n.has(clearInFirstChunk) && delivered && barrier {
		after := *s
		n.clear(&after)
		after.Cleared = 1
		n.emit(after, "first_for_table", 0)
	}
	running := s.Complete == 0 || n.Lib && !n.has(noRedeliveryRepair) && s.Repair != 0
	if !running || s.Cleared == 0 && !n.has(clearInFirstChunk) {
		return
	}
	for x := range s.Chunks {
		n.chunkSteps(s, x, barrier, delivered)
	}
	free := s.Chunks[0].Phase == idle && s.Chunks[1].Phase == idle && s.Chunks[2].Phase == idle
	all := has(s.Done, 0) && (has(s.Done, 1) || n.Parts[1] == 0)
	if s.Complete == 0 && free && all && s.Repair == 0 && s.RepairStored == 0 && delivered {
		after := *s
		after.Complete = 1
		for k := range after.Sink {
			if n.Sweep && after.Sink[k].Touched == 0 {
				after.Sink[k] = row{}
			}
		}
		n.emit(after, "run complete", 0)
	}
}

func (n *steps) chunkSteps(s *state, x int, barrier, delivered bool) {
	c := &s.Chunks[x]
	after := *s
	to := &after.Chunks[x]
	switch c.Phase {
	case idle:
		n.open(s, x, barrier)
	case selected0:
		to.Phase, to.High = buffered, s.Length
		n.emit(after, "window opens too late, chunk", int8(x))
	case opened:
		n.read(s, x)
	case selected:
		to.Phase, to.High = buffered, n.highMark(s)
		if n.has(readersWord) && x < 2 {
			after.Done |= bit(int8(x))
		}
		n.emit(after, "high mark read, chunk", int8(x))
	case buffered:
		if c.Tainted == 1 {
			*to = chunk{}
			n.emit(after, "chunk discarded", int8(x))
			return
		}
		early := s.Received < c.High && !n.has(noFrontier)
		if !early && delivered && (!n.has(unitsUpToHigh) || s.delivered(n.Run) >= c.High) {
			n.apply(s, x)
		}
	case half:
		if n.has(tokenFirst) {
			n.applyRows(&after, x)
		} else {
			n.storeToken(&after, x)
		}
		*to = chunk{}
		n.emit(after, "second half stored, chunk", int8(x))
	}
}

func (n *steps) highMark(s *state) int8 {
	switch {
	case n.has(highIsFlushed):
		return s.Flushed
	case n.ReadStandby:
		return s.Replayed
	}
	return s.Length
}

func (n *steps) open(s *state, x int, barrier bool) {
	left := s.Repair != 0
	if x < 2 {
		left = !has(s.Done, int8(x)) && n.Parts[x] != 0
	}
	if !left || !barrier {
		return
	}
	after := *s
	c := &after.Chunks[x]
	c.Phase, c.Opened, c.Keys = opened, s.Received, s.Repair
	if x < 2 {
		c.Keys = n.Parts[x]
	}
	if n.has(highBeforeSelect) {
		c.High = s.Length
	}
	if n.has(windowAfterSelect) {
		c.Snapshot, c.Phase = s.Visible, selected0
	}
	n.emit(after, "window opens, chunk", int8(x))
}

// read takes the snapshot, once it shows everything that was received before the window
// opened. What former epochs received is the writer wait's task.
func (n *steps) read(s *state, x int) {
	need, visible := below(s.Chunks[x].Opened), s.Visible
	switch {
	case n.ReadStandby:
		visible = below(s.Replayed)
		if n.has(noReplayWait) {
			need = 0
		}
	case n.has(noVisibilityCheck):
		need = 0
	default:
		need &^= below(s.Start)
	}
	if need&^visible != 0 {
		return
	}
	after := *s
	c := &after.Chunks[x]
	c.Snapshot, c.Phase = visible, selected
	if n.has(highBeforeSelect) {
		c.Phase = buffered
	}
	n.emit(after, "SELECT, chunk", int8(x))
}

func (n *steps) apply(s *state, x int) {
	after := *s
	if n.has(clearInFirstChunk) && s.Cleared == 0 {
		n.clear(&after)
		after.Cleared = 1
	}
	if n.has(tokenFirst) {
		n.storeToken(&after, x)
		after.Chunks[x].Phase = half
		n.emit(after, "token stored, chunk", int8(x))
		return
	}
	n.applyRows(&after, x)
	if n.Lib || n.has(tokenApart) {
		after.Chunks[x].Phase = half
		n.emit(after, "chunk applied", int8(x))
		return
	}
	n.storeToken(&after, x)
	after.Chunks[x] = chunk{}
	if n.has(oneSetPerTable) {
		for y := range after.Chunks {
			after.Chunks[y].Entries = [keysMax + 1]entry{}
		}
	}
	n.emit(after, "chunk applied with its token", int8(x))
}

func (n *steps) applyRows(s *state, x int) {
	c := &s.Chunks[x]
	read := n.source(s, c.Snapshot)
	for key := int8(1); key <= n.Keys; key++ {
		if !has(c.Keys, key) || read[key].Plain == 0 {
			continue
		}
		switch e := c.Entries[key]; {
		case e.State == entryNone:
			n.sinkPuts(s, key, read[key])
		case e.State == entryPartial && !n.has(noMerge):
			n.sinkPuts(s, key, row{Plain: e.Plain, Toast: read[key].Toast})
		}
	}
}

func (n *steps) storeToken(s *state, x int) {
	c := &s.Chunks[x]
	if x < 2 {
		s.Done |= bit(int8(x))
	} else {
		for key := int8(1); key <= n.Keys; key++ {
			if has(c.Keys, key) && c.Entries[key].State != entryHole {
				s.Repair &^= bit(key)
			}
		}
	}
	s.RepairStored = s.Repair
}
