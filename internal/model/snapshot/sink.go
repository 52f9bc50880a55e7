package snapshot

// touched is a row after the stream wrote it.
func (r *Run) touched(w row) row {
	if !r.has(originKept) || w.Origin != 1 {
		w.Origin = 2
	}
	w.Touched = 1
	if r.has(sweepForgetsStream) {
		w.Touched = 0
	}
	return w
}

// sinkTakes is the sink's way with one streamed operation.
func (r *Run) sinkTakes(s *state, o operation, i int8) {
	at := &s.Sink[o.Key]
	switch o.Kind {
	case opUpdate:
		switch {
		case at.Plain != 0:
			at.Plain = i + 1
			if r.has(nullForUnchanged) {
				at.Toast = -1
			}
			*at = r.touched(*at)
		case !r.Ignores:
			*at = r.touched(row{Plain: i + 1, Toast: -1})
		}
	case opUpdateToast, opInsert:
		*at = r.touched(row{Plain: i + 1, Toast: 30 + i, Origin: at.Origin})
	case opDelete:
		*at = row{}
	case opMove:
		r.sinkMoves(s, o, i)
	case opTruncate:
		s.Sink = table{}
	}
}

// sinkMoves takes the column that was not sent from the row at the old key, else from the
// row at the new one.
func (r *Run) sinkMoves(s *state, o operation, i int8) {
	from, to := s.Sink[o.Key], s.Sink[o.To]
	s.Sink[o.Key] = row{}
	moved := row{Plain: i + 1, Toast: -1}
	switch {
	case to.Plain != 0 && to.Toast != -1 && r.has(newKeyFirst):
		moved.Toast = to.Toast
	case from.Plain != 0:
		moved.Toast, moved.Origin = from.Toast, from.Origin
	case to.Plain != 0:
		moved.Toast = to.Toast
	case r.Ignores:
		return
	}
	s.Sink[o.To] = r.touched(moved)
}

// clear opens the table at the sink.
func (r *Run) clear(s *state) {
	for k := range s.Sink {
		switch {
		case r.Sweep:
			s.Sink[k].Touched = 0
		case s.Sink[k].Origin != 2 || r.ClearsAll || r.Again:
			s.Sink[k] = row{}
		}
	}
}

// sinkPuts stores a row of a chunk: the whole row, by its key.
func (r *Run) sinkPuts(s *state, key int8, w row) {
	before := s.Sink[key]
	if r.has(insertIfAbsent) && before.Plain != 0 {
		return
	}
	w.Origin, w.Touched = before.Origin, 1
	if before.Plain == 0 || before.Origin == 0 {
		w.Origin = 1
	}
	s.Sink[key] = w
}
