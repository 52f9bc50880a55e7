package delivery

// grantClaim is the sink taking a claim: a higher epoch, or a repeat by its sender.
func (n *steps) grantClaim(k int) {
	s, t := n.from, *n.from
	call := &t.Calls[k]
	call.Stage = answered
	repeat := call.Epoch == s.SinkEpoch && (call.From == s.SinkSender || n.has(claimWithoutSender))
	if call.Epoch > s.SinkEpoch || repeat {
		t.SinkEpoch, t.SinkSender = call.Epoch, call.From
		call.Answer, call.Returned = saysOK, s.SinkPosition
		n.to(t, "is granted epoch %d by the sink", call.Epoch)
		return
	}
	call.Answer = saysFenced
	n.to(t, "is refused its claim by the sink")
}

// writeRow is the sidecar's own store executing a compare-and-set.
func (n *steps) writeRow(k int) {
	s, t := n.from, *n.from
	call := &t.Calls[k]
	call.Stage = answered
	if !n.has(rowWithoutCompareAndSet) && (s.RowEpoch != call.Epoch || s.RowPosition != call.Expected) {
		call.Answer = saysNoMatch
		n.to(t, "has a row write that matches nothing")
		return
	}
	position := n.position(call.Last)
	if position < s.RowPosition {
		t.Broken = WentBack
	}
	t.RowPosition = position
	call.Answer = saysOK
	n.to(t, "has the row set to %d", position)
}

// libSink is a sink that stores no position: it fences in memory and does the rest.
func (n *steps) libSink(k int) {
	s, t := n.from, *n.from
	call := &t.Calls[k]
	call.Stage = answered
	remembers := !n.has(noMemoryFence)
	switch {
	case !n.has(noInstance) && call.Instance != s.Instance:
		call.Answer = saysInstanceChanged
		n.to(t, "is refused: another sink instance")
	case remembers && call.Epoch < s.SeenEpoch:
		call.Answer = saysFenced
		n.to(t, "is refused: an older epoch")
	case remembers && !n.has(noSequence) && call.Epoch == s.SeenEpoch && call.Sequence <= s.SeenSequence:
		*call = Call{}
		n.to(t, "is refused: an older call")
	default:
		if remembers {
			t.SeenEpoch, t.SeenSequence = call.Epoch, call.Sequence
		}
		for i := call.First; i <= call.Last; i++ {
			n.effect(&t, i)
		}
		call.Answer = saysOK
		n.to(t, "has item %d done by the sink", call.Last)
	}
}

// owningSink is a sink that stores position and epoch with its rows, in one
// transaction.
func (n *steps) owningSink(k int) {
	s, t := n.from, *n.from
	call := &t.Calls[k]
	if n.has(epochOutsideTransaction) && call.Stage == inNetwork {
		if call.Epoch == s.SinkEpoch {
			call.Stage = checkedOutside
			n.to(t, "passes the epoch test outside the transaction")
		} else {
			call.Stage, call.Answer = answered, saysFenced
			n.to(t, "is fenced")
		}
		return
	}
	call.Stage = answered
	fences := !n.has(noFencing | epochOutsideTransaction)
	switch {
	case fences && call.Epoch < s.SinkEpoch:
		call.Answer = saysFenced
		n.to(t, "is fenced")
	case fences && call.Epoch > s.SinkEpoch, !n.has(noExpectedCheckpointTest) && call.Expected > s.SinkPosition:
		call.Answer = saysBehind
		n.to(t, "finds the sink behind")
	case n.has(sinkIgnoresEmptyUnits) && n.layout[call.Last].kind == idle:
		call.Answer, call.Returned = saysOK, n.layout[call.Last].end
		n.to(t, "has an empty unit answered with OK and not stored")
	default:
		n.apply(&t, call)
		n.to(t, "has items up to %d applied, position %d", call.Last, t.SinkPosition)
	}
}

// apply is the writing transaction of an owning sink: skip what is settled, do the rest,
// raise the position.
func (n *steps) apply(t *State, call *Call) {
	s, did := n.from, false
	for i := call.First; i <= call.Last; i++ {
		judged := i
		if n.has(skipWholeBatch) {
			judged = call.Last
		}
		if n.settled(judged, s.SinkPosition, true) {
			continue
		}
		n.effect(t, i)
		did = true
	}
	if position := n.position(call.Last); position > t.SinkPosition {
		t.SinkPosition = position
		did = true
	}
	overtaken := call.Epoch != s.SinkEpoch || call.From != s.SinkSender
	if did && overtaken && !n.has(rowsOnly) && t.Broken == None {
		t.Broken = StaleWriter
	}
	call.Answer, call.Returned = saysOK, n.position(call.Last)
	if n.has(ackWhatSinkReturned) && call.Last+1 < items {
		call.Returned = n.layout[call.Last+1].end // a sink that tells what it has received
	}
}

// effect makes an item visible at the sink, once more.
func (n *steps) effect(t *State, i int8) {
	if n.layout[i].kind == idle {
		return
	}
	if !n.Lib && t.Effects[i] > 0 {
		t.Broken = Duplicate
	}
	if n.Lib && t.RowPosition >= n.layout[i].end {
		t.Broken = SettledAgain
	}
	following := t.LastEffect
	for following < items && n.layout[following].kind == idle {
		following++
	}
	// Forward by one; lib: the same again, or back to the first above the row.
	inOrder := i == following || n.Lib && (i == t.LastEffect-1 || i == n.firstAbove(t.RowPosition))
	if !inOrder && t.Broken == None {
		t.Broken = Hole
	}
	t.Effects[i] = min(t.Effects[i]+1, effectsMax)
	t.LastEffect = i + 1
}
