package snapshot

import (
	"fmt"
	"strings"
)

// steps collects the states behind one state.
type steps struct {
	*Run
	out *[]state
	// texts are collected too where it is not nil.
	texts *[]string
}

func (n *steps) emit(s state, what string, i int8) {
	*n.out = append(*n.out, s)
	if n.texts == nil {
		return
	}
	text := fmt.Sprint(what, " ", i)
	switch what {
	case "source commits", "open writer commits":
		text += " [" + s.Log[i-1].String() + "]"
	case "writer opens", "writer writes again", "writer moves the row":
		text += " [" + s.Open.String() + "]"
	}
	*n.texts = append(*n.texts, text)
}

// String is the transaction for a trace.
func (t transaction) String() string {
	var texts []string
	for _, o := range t {
		if o.Kind == opNone {
			continue
		}
		text := []string{"", "update", "update with TOAST", "move", "delete", "insert", "truncate"}[o.Kind]
		if o.Kind != opTruncate {
			text += fmt.Sprint(" ", o.Key)
		}
		if o.Kind == opMove {
			text += fmt.Sprint(" to ", o.To)
		}
		if o.Unstreamed == 1 {
			text += ", not streamed"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func (n *steps) expand(s *state) {
	n.sourceSteps(s)
	n.receive(s)
	n.deliver(s)
	n.runSteps(s)
	held := s.Received != s.Durable || s.Applied != s.Durable || s.Start != s.Durable || s.Repair != s.RepairStored ||
		s.Chunks != [3]chunk{}
	if s.Crashes > 0 && held {
		after := *s
		after.Crashes--
		n.reset(&after)
		n.emit(after, "crash", 0)
	}
	if s.Restarts > 0 && s.Cleared == 1 {
		after := *s
		after.Restarts--
		n.reset(&after)
		after.Cleared, after.Done, after.Complete, after.RepairStored, after.Repair = 0, 0, 0, 0, 0
		n.emit(after, "run begun anew", 0)
	}
}

// Explore visits every state that the run can reach, up to the first violation.
func Explore(r Run, options Options) (Result, error) {
	return explore(space[state]{
		start: r.start(),
		next: func(s *state, out *[]state, texts *[]string) {
			(&steps{&r, out, texts}).expand(s)
		},
		judge: r.judge,
		rest:  r.rest,
	}, options)
}
