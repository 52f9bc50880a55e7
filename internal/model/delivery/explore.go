package delivery

import (
	"fmt"

	"github.com/replicant-sidecar/replicant-sidecar/internal/model/states"
)

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
	seen   *states.Set[State]
	parent states.Column // by state
	// edges lists the followers of each state; edgesFrom says where they begin.
	edges     states.Column
	edgesFrom states.Column
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
	w := &search{Protocol: &p, seen: states.New[State]()}
	begin := p.start()
	w.seen.Add(&begin)
	w.parent.Append(0)
	n := &steps{Protocol: &p}
	for at := 0; at < w.seen.Len(); at++ {
		s := w.seen.At(at)
		if v := p.judge(s); v != None {
			w.result.Violation, w.result.States = v, w.seen.Len()
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
		w.edgesFrom.Append(uint32(w.edges.Len()))
		for i := range n.states {
			to, added := w.seen.Add(&n.states[i])
			if added {
				w.parent.Append(uint32(at))
			}
			w.edges.Append(uint32(to))
		}
		if w.seen.Len() > statesMax {
			return w.result, fmt.Errorf("gave up after %d states", w.seen.Len())
		}
	}
	w.edgesFrom.Append(uint32(w.edges.Len()))
	w.result.States = w.seen.Len()
	w.countStuck()
	return w.result, nil
}

// trace tells the way to a state by walking it again with texts.
func (w *search) trace(at int) {
	var path []int
	for ; at != 0; at = int(w.parent.At(at)) {
		path = append(path, at)
	}
	w.result.Depth = len(path)
	n := &steps{Protocol: w.Protocol, named: true}
	from := 0
	for i := len(path) - 1; i >= 0; i-- {
		n.expand(w.seen.At(from))
		for k := range n.states {
			if n.states[k] == *w.seen.At(path[i]) {
				w.result.Trace = append(w.result.Trace, n.texts[k])
				break
			}
		}
		from = path[i]
	}
}

// countStuck walks the edges backwards from the settled ends.
func (w *search) countStuck() {
	all := w.seen.Len()
	from, back := w.reversed()
	reaches := make([]bool, all)
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
	for at := range all {
		s := w.seen.At(at)
		if s.Sidecars[w.Sidecars-1].At == fresh && !reaches[at] && !s.Halted && !s.Foreign {
			w.result.Stuck++
		}
	}
}

// reversed turns the edges around: the states before state i are
// back[from[i]:from[i+1]].
func (w *search) reversed() (from, back []uint32) {
	all := w.seen.Len()
	from = make([]uint32, all+2)
	for e := range w.edges.Len() {
		from[w.edges.At(e)+2]++
	}
	for i := 2; i < len(from); i++ {
		from[i] += from[i-1]
	}
	back = make([]uint32, w.edges.Len())
	for at := range all {
		for e := w.edgesFrom.At(at); e < w.edgesFrom.At(at+1); e++ {
			to := w.edges.At(int(e))
			back[from[to+1]] = uint32(at)
			from[to+1]++
		}
	}
	return from, back
}
