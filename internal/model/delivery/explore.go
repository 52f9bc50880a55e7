package delivery

import "fmt"

// Result is what a search found.
type Result struct {
	// Violation is None when the protocol holds; then all States were visited.
	Violation Violation
	// Depth is the number of steps of the shortest counterexample.
	Depth  int
	States int
	// Halted counts states in which an incarnation halted by decision.
	Halted int
	// Stuck counts states from which the settled end cannot be reached although a fresh
	// incarnation is left, nobody halted and nothing foreign happened.
	Stuck int
	// Trace is the counterexample, one line a step.
	Trace []string
}

// search is a breadth-first walk over all states.
type search struct {
	*Protocol
	seen   *stateSet
	parent column // by state
	// edges lists the followers of each state; edgesFrom says where they begin.
	edges     column
	edgesFrom column
	finals    []uint32
	result    Result
}

// Explore visits every state that the protocol can reach, up to the first violation. It
// gives up with an error at statesMax.
func Explore(p Protocol, statesMax int) (Result, error) {
	if p.Sidecars == 0 {
		p.Sidecars = 2
	}
	p.layout = usualLayout
	if p.IdleMiddle {
		p.layout = idleMiddleLayout
	}
	w := &search{Protocol: &p, seen: newStateSet()}
	begin := p.start()
	w.seen.add(&begin)
	w.parent.append(0)
	n := &steps{Protocol: &p}
	for at := 0; at < w.seen.len(); at++ {
		s := w.seen.at(at)
		if v := p.judge(s); v != None {
			w.result.Violation, w.result.States = v, w.seen.len()
			w.trace(at)
			return w.result, nil
		}
		if s.Halted {
			w.result.Halted++
		}
		if p.final(s) {
			w.finals = append(w.finals, uint32(at))
		}
		n.expand(s)
		w.edgesFrom.append(uint32(w.edges.len()))
		for i := range n.states {
			to, added := w.seen.add(&n.states[i])
			if added {
				w.parent.append(uint32(at))
			}
			w.edges.append(uint32(to))
		}
		if w.seen.len() > statesMax {
			return w.result, fmt.Errorf("gave up after %d states", w.seen.len())
		}
	}
	w.edgesFrom.append(uint32(w.edges.len()))
	w.result.States = w.seen.len()
	w.countStuck()
	return w.result, nil
}

// trace tells the way to a state by walking it again with texts.
func (w *search) trace(at int) {
	var path []int
	for ; at != 0; at = int(w.parent.at(at)) {
		path = append(path, at)
	}
	w.result.Depth = len(path)
	n := &steps{Protocol: w.Protocol, named: true}
	from := 0
	for i := len(path) - 1; i >= 0; i-- {
		n.expand(w.seen.at(from))
		for k := range n.states {
			if n.states[k] == *w.seen.at(path[i]) {
				w.result.Trace = append(w.result.Trace, n.texts[k])
				break
			}
		}
		from = path[i]
	}
}

// countStuck walks the edges backwards from the settled ends.
func (w *search) countStuck() {
	states := w.seen.len()
	from, back := w.reversed()
	reaches := make([]bool, states)
	todo := w.finals
	for _, at := range todo {
		reaches[at] = true
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, before := range back[from[at]:from[at+1]] {
			if !reaches[before] {
				reaches[before] = true
				todo = append(todo, before)
			}
		}
	}
	for at := range states {
		s := w.seen.at(at)
		if s.Sidecars[w.Sidecars-1].At == fresh && !reaches[at] && !s.Halted && !s.Foreign {
			w.result.Stuck++
		}
	}
}

// reversed turns the edges around: the states before state i are
// back[from[i]:from[i+1]].
func (w *search) reversed() (from, back []uint32) {
	states := w.seen.len()
	from = make([]uint32, states+2)
	for e := range w.edges.len() {
		from[w.edges.at(e)+2]++
	}
	for i := 2; i < len(from); i++ {
		from[i] += from[i-1]
	}
	back = make([]uint32, w.edges.len())
	for at := range states {
		for e := w.edgesFrom.at(at); e < w.edgesFrom.at(at+1); e++ {
			to := w.edges.at(int(e))
			back[from[to+1]] = uint32(at)
			from[to+1]++
		}
	}
	return from, back
}
