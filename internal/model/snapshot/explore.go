package snapshot

import (
	"fmt"

	"github.com/replicant-sidecar/replicant-sidecar/internal/model/states"
)

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
	seen            *states.Set[S]
	parent          states.Column
	edges, edgesEnd states.Column
	result          Result
}

func explore[S comparable](what space[S], o Options) (Result, error) {
	w := &search[S]{space: what, seen: states.New[S]()}
	w.seen.Add(&w.start)
	w.parent.Append(0)
	var out []S
	for at := 0; at < w.seen.Len(); at++ {
		s := w.seen.At(at)
		if v := w.judge(s); v != "" {
			w.result.Violation, w.result.States = v, w.seen.Len()
			w.trace(at)
			return w.result, nil
		}
		out = out[:0]
		w.next(s, &out, nil)
		for i := range out {
			to, added := w.seen.Add(&out[i])
			if added {
				w.parent.Append(uint32(at))
			}
			if o.Stuck {
				w.edges.Append(uint32(to))
			}
		}
		if o.Stuck {
			w.edgesEnd.Append(uint32(w.edges.Len()))
		}
		if w.seen.Len() > o.StatesMax {
			return w.result, fmt.Errorf("gave up after %d states", w.seen.Len())
		}
	}
	w.result.States = w.seen.Len()
	if o.Stuck {
		w.countStuck()
	}
	return w.result, nil
}

// trace tells the way to a state by walking it again with texts.
func (w *search[S]) trace(at int) {
	var path []int
	for ; at != 0; at = int(w.parent.At(at)) {
		path = append(path, at)
	}
	w.result.Depth = len(path)
	from := 0
	for i := len(path) - 1; i >= 0; i-- {
		var out []S
		var texts []string
		w.next(w.seen.At(from), &out, &texts)
		for k := range out {
			if out[k] == *w.seen.At(path[i]) {
				w.result.Trace = append(w.result.Trace, texts[k])
				break
			}
		}
		from = path[i]
	}
}

// countStuck walks the edges backwards from rest.
func (w *search[S]) countStuck() {
	all := w.seen.Len()
	first, back := w.reversed()
	reaches := make([]bool, all)
	var todo []uint32
	for at := range all {
		if w.rest(w.seen.At(at)) {
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
	for at := range all {
		if !reaches[at] {
			w.result.Stuck++
		}
	}
}

// reversed turns the edges around: the states before state i are back[first[i]:first[i+1]].
func (w *search[S]) reversed() (first, back []uint32) {
	all := w.seen.Len()
	first = make([]uint32, all+2)
	for e := range w.edges.Len() {
		first[w.edges.At(e)+2]++
	}
	for i := 2; i < len(first); i++ {
		first[i] += first[i-1]
	}
	back = make([]uint32, w.edges.Len())
	e := 0
	for at := range all {
		for ; e < int(w.edgesEnd.At(at)); e++ {
			to := w.edges.At(e)
			back[first[to+1]] = uint32(at)
			first[to+1]++
		}
	}
	return first, back
}
