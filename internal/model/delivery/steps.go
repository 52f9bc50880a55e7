package delivery

import "fmt"

// steps collects the states that can follow one state.
type steps struct {
	*Protocol
	from   *State
	states []State
	// texts says for each of states what happened; only when a trace is wanted.
	texts []string
	named bool

	who       int8 // the incarnation that acts, or whose call is executed
	free      int  // a free place for a call, or nobody
	freeCalls int
}

// expand fills states with everything that can happen in s.
func (n *steps) expand(s *State) {
	n.from, n.states, n.texts = s, n.states[:0], n.texts[:0]
	n.free, n.freeCalls = nobody, 0
	for i := range s.Calls {
		if !s.Calls[i].Open {
			if n.free == nobody {
				n.free = i
			}
			n.freeCalls++
		}
	}
	for i := range int8(n.Sidecars) {
		n.who = i
		n.sidecar()
	}
	for k := range s.Calls {
		if s.Calls[k].Open {
			n.who = s.Calls[k].From
			n.call(k)
		}
	}
	n.environment()
}

// to adds a following state. The text may have verbs for the numbers.
func (n *steps) to(t State, text string, numbers ...int8) {
	n.normalize(&t)
	n.states = append(n.states, t)
	if n.named {
		args := make([]any, len(numbers))
		for i, number := range numbers {
			args[i] = number
		}
		n.texts = append(n.texts, fmt.Sprintf("#%d ", n.who+1)+fmt.Sprintf(text, args...))
	}
}

// me is the acting incarnation in a state.
func (n *steps) me(t *State) *Sidecar { return &t.Sidecars[n.who] }

// owns reports whether the acting incarnation has the slot.
func (n *steps) owns() bool { return n.from.Owner == n.who }

// send puts a call of the acting incarnation into a free place.
func (n *steps) send(t *State, place int, kind callKind, expected, first, last int8) {
	q := n.me(t)
	q.Sequence++
	t.Calls[place] = Call{
		Open: true, From: n.who, Epoch: q.Epoch, Sequence: q.Sequence, Instance: q.Instance,
		Kind: kind, Expected: expected, First: first, Last: last,
	}
}

// halt ends an incarnation by decision; without a foreign fault that is a violation.
func (n *steps) halt(t *State) {
	n.me(t).At, t.Halted = halted, true
	if !n.from.Foreign {
		t.Broken = FalseHalt
	}
}

// sidecar adds the steps of the acting incarnation.
func (n *steps) sidecar() {
	t := *n.from
	switch n.me(&t).At {
	case fresh, again:
		n.read(t)
	case hasRead:
		n.takeSlot(t)
	case hasSlot:
		n.prepareClaim(t)
	case willClaim:
		n.claim(t)
	case claiming:
		n.claimTimesOut(t)
	case starting:
		n.begin(t)
	case opening:
		n.open(t)
	case verifying:
		n.verify(t)
	case running:
		n.run(t)
	case waiting:
		n.wait(t)
	case unknown:
		n.resolve(t)
	case willStore:
		n.store(t)
	case storing:
		n.storeTimesOut(t)
	case storeUnknown:
		n.resolveStore(t)
	case willAck:
		n.acknowledge(t)
	}
}
