package delivery

const (
	sidecarsMax = 3
	callsMax    = 3
	nobody      = -1
	effectsMax  = 4 // counted no further
)

// State is everything that the next step depends on. All its fields are single bytes, so
// that millions fit into memory and comparing two is one comparison of memory.
type State struct {
	// The slot: what Postgres was told, and which incarnation streams.
	Confirmed, Owner int8
	// The sink's store. In lib modes only the effects are the sink's.
	SinkEpoch, SinkSender, SinkPosition int8
	// The sink process: its instance, and the highest epoch and sequence it has seen.
	Instance, SeenEpoch, SeenSequence int8
	// The sidecar's own store row (lib modes).
	RowEpoch, RowPosition int8
	// How often each item took effect, and 1 + the item of the last effect.
	Effects    [items]int8
	LastEffect int8

	Calls    [callsMax]Call
	Sidecars [sidecarsMax]Sidecar
	Left     Budget

	// Foreign: a fault has happened that may lawfully halt us.
	Foreign bool
	Halted  bool
	Broken  Violation
}

// callKind is what a call asks for.
type callKind int8

const (
	claimCall callKind = iota
	unitCall
	rowCall
)

// stage is how far a call has come.
type stage int8

const (
	inNetwork stage = iota
	checkedOutside
	answered
)

// answer is what the called side said.
type answer int8

const (
	saysOK answer = iota
	saysFenced
	saysBehind
	saysInstanceChanged
	saysNoMatch
)

// Call is a message on its way. It may be executed long after its sender gave up.
type Call struct {
	Open                            bool
	From, Epoch, Sequence, Instance int8
	Kind                            callKind
	Expected, First, Last           int8
	Stage                           stage
	Answer                          answer
	Returned                        int8 // the position in the answer
}

// phase is where an incarnation stands.
type phase int8

const (
	fresh phase = iota
	again       // from the top, after a session ended in doubt or the slot was busy
	hasRead
	hasSlot
	willClaim
	claiming
	starting
	opening
	verifying
	running
	waiting
	unknown
	willStore
	storing
	storeUnknown
	willAck
	drained
	stopped
	halted
)

// Sidecar is one incarnation.
type Sidecar struct {
	At    phase
	Epoch int8
	// Position known durable; Start is where the stream began.
	Position, Start int8
	// First and Last item of the unit in hand.
	First, Last        int8
	Sequence, Instance int8
	Answered           bool // one unit was answered (for a mutant)
	Delivered          int8 // lib batch: 1 + the last item delivered since the last row write
	Pipelined          int8 // sequence of the first of two units in flight
}

// awaits reports whether the incarnation still waits for this kind of answer.
func (q *Sidecar) awaits(k callKind) bool {
	switch q.At {
	case waiting:
		return k == unitCall
	case claiming:
		return k == claimCall
	case storing:
		return k == rowCall
	}
	return false
}

// normalize forgets what nothing reads any more and brings the calls into one order, so
// that states that behave alike are alike.
func (p *Protocol) normalize(s *State) {
	for i := range s.Calls {
		call := &s.Calls[i]
		if call.Open && call.Stage == answered {
			q := &s.Sidecars[call.From]
			if !q.awaits(call.Kind) || q.Sequence != call.Sequence && q.Pipelined != call.Sequence {
				*call = Call{}
			}
		}
	}
	for i := range s.Sidecars {
		p.forget(s, i)
	}
	open := 0
	for i := range s.Calls {
		if s.Calls[i].Open {
			s.Calls[i], s.Calls[open] = s.Calls[open], s.Calls[i]
			open++
		}
	}
	for i := 1; i < open; i++ {
		for j := i; j > 0 && s.Calls[j].rank() < s.Calls[j-1].rank(); j-- {
			s.Calls[j], s.Calls[j-1] = s.Calls[j-1], s.Calls[j]
		}
	}
}

func (c *Call) rank() int { return int(c.From)*1000 + int(c.Sequence)*10 + int(c.Kind) }

// forget clears the fields of one incarnation that its phase never reads.
func (p *Protocol) forget(s *State, i int) {
	q := &s.Sidecars[i]
	switch q.At {
	case stopped, halted:
		*q = Sidecar{At: q.At}
	case drained:
		*q = Sidecar{At: q.At, Epoch: q.Epoch}
	case again:
		*q = Sidecar{At: q.At, Sequence: q.Sequence}
	case hasRead:
		*q = Sidecar{At: q.At, Position: q.Position, Sequence: q.Sequence}
	case hasSlot, willClaim, claiming, starting, opening, verifying, running, willAck:
		if q.Pipelined == 0 {
			q.First, q.Last = 0, 0
		}
	}
	switch {
	case (q.At == hasSlot || q.At == willClaim || q.At == claiming) && !p.has(positionFromRead):
		q.Position = 0 // the claim will say it
	case q.At > starting && q.Start <= q.Position && !p.has(storeCommitLSN|commitLSNForm|startPlusOne):
		q.Start = 0 // what the position does not cover starts at or above it
	}
	if p.Lib || p.has(twoInFlight) {
		return
	}
	for k := range s.Calls { // the sequence only finds the answer to an open call here
		if s.Calls[k].Open && int(s.Calls[k].From) == i {
			return
		}
	}
	q.Sequence = 0
}
