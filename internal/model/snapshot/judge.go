package snapshot

func same(a, b table) bool {
	for k := range a {
		if a[k].Plain != b[k].Plain || a[k].Toast != b[k].Toast {
			return false
		}
	}
	return true
}

// rest: the run is complete and nothing is left to do.
func (r *Run) rest(s *state) bool {
	return s.Complete == 1 && s.Durable == s.Length && s.Repair == 0 && (!r.Lib || s.Applied == s.Length) &&
		s.Visible == below(s.Length) && s.Open[0].Kind == opNone
}

// What a search can find wrong.
const (
	wrongRow   = "a row at the sink is not that of the checkpoint"
	wrongRest  = "the sink differs at rest"
	wrongState = "complete, but not the state at the checkpoint"
)

func (r *Run) judge(s *state) string {
	if r.inOrder() && !r.Lib && !r.Again && !r.Added && s.Restarts == r.Restarts {
		at := r.source(s, below(s.Durable))
		for k := range at {
			if w := s.Sink[k]; w.Plain != 0 && (w.Plain != at[k].Plain || w.Toast != -1 && w.Toast != at[k].Toast) {
				return wrongRow
			}
		}
	}
	switch {
	case s.Complete == 0:
	case r.rest(s) && !same(r.source(s, 0xff), s.Sink):
		return wrongRest
	case r.inOrder() && !r.Lib && s.Open[0].Kind == opNone && !same(r.source(s, below(s.Durable)), s.Sink):
		return wrongState
	}
	return ""
}
