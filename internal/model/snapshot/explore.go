package snapshot

import "fmt"

// Options of a search.
type Options struct {
	// StatesMax is where it gives up.
	StatesMax int
	// Stuck asks for Result.Stuck, which costs memory.
	Stuck bool
}

// Result is what a search found.
type Result struct {
	// Violation is empty when everything holds; then all States were visited.
	Violation string
	// Depth is the number of steps of the shortest counterexample.
	Depth, States int
	// Stuck counts states from which rest cannot be reached.
	Stuck int
	// Trace is the counterexample, one line a step.
	Trace []string
}

// space is what is searched.
type space[S comparable] struct {
	start S
	// next appends the states behind s, and what leads to each where texts is not nil.
	next  func(s *S, out *[]S, texts *[]string)
	judge func(*S) string
	rest  func(*S) bool
}

// search is a breadth-first walk.
type search[S comparable] struct {
	space[S]
	seen            *stateSet[S]
	parent          column
	edges, edgesEnd column
	result          Result
}

func explore[S comparable](what space[S], o Options) (Result, error) {
	w := &search[S]{space: what, seen: newStateSet[S]()}
	w.seen.add(&w.start)
	w.parent.append(0)
	var out []S
	for at := 0; at < w.seen.len(); at++ {
		s := w.seen.at(at)
		if v := w.judge(s); v != "" {
			w.result.Violation, w.result.States = v, w.seen.len()
			w.trace(at)
			return w.result, nil
		}
		out = out[:0]
		w.next(s, &out, nil)
		for i := range out {
			to, added := w.seen.add(&out[i])
			if added {
				w.parent.append(uint32(at))
			}
			if o.Stuck {
				w.edges.append(uint32(to))
			}
		}
		if o.Stuck {
			w.edgesEnd.append(uint32(w.edges.len()))
		}
		if w.seen.len() > o.StatesMax {
			return w.result, fmt.Errorf("gave up after %d states", w.seen.len())
		}
	}
	w.result.States = w.seen.len()
	if o.Stuck {
		w.countStuck()
	}
	return w.result, nil
}

// trace tells the way to a state by walking it again with texts.
func (w *search[S]) trace(at int) {
	var path []int
	for ; at != 0; at = int(w.parent.at(at)) {
		path = append(path, at)
	}
	w.result.Depth = len(path)
	from := 0
	for i := len(path) - 1; i >= 0; i-- {
		var out []S
		var texts []string
		w.next(w.seen.at(from), &out, &texts)
		for k := range out {
			if out[k] == *w.seen.at(path[i]) {
				w.result.Trace = append(w.result.Trace, texts[k])
				break
			}
		}
		from = path[i]
	}
}

// countStuck walks the edges backwards from rest.
func (w *search[S]) countStuck() {
	states := w.seen.len()
	first, back := w.reversed()
	reaches := make([]bool, states)
	var todo []uint32
	for at := range states {
		if w.rest(w.seen.at(at)) {
			reaches[at] = true
			todo = append(todo, uint32(at))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, before := range back[first[at]:first[at+1]] {
			if !reaches[before] {
				reaches[before] = true
				todo = append(todo, before)
			}
		}
	}
	for at := range states {
		if !reaches[at] {
			w.result.Stuck++
		}
	}
}

// reversed turns the edges around: the states before state i are back[first[i]:first[i+1]].
func (w *search[S]) reversed() (first, back []uint32) {
	states := w.seen.len()
	first = make([]uint32, states+2)
	for e := range w.edges.len() {
		first[w.edges.at(e)+2]++
	}
	for i := 2; i < len(first); i++ {
		first[i] += first[i-1]
	}
	back = make([]uint32, w.edges.len())
	e := 0
	for at := range states {
		for ; e < int(w.edgesEnd.at(at)); e++ {
			to := w.edges.at(e)
			back[first[to+1]] = uint32(at)
			first[to+1]++
		}
	}
	return first, back
}
