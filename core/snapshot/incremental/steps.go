package incremental

import "github.com/replicant-sidecar/replicant-sidecar/core"

type stepKind uint8

const (
	stepNote stepKind = iota + 1
	stepClear
	stepChunk
	stepLast
	stepCopy
	stepComplete
)

// Step is a unit of the run on its way to the sink.
type Step struct {
	kind   stepKind
	table  *table
	status Status // of the table once the step is durable
	chunk  *chunk
	rows   []core.Tuple
	// first and last are of the pieces of a table without a key.
	first, last bool
	version     uint64 // of the token that it carries
}

// Notes reports that the step carries the token alone.
func (s *Step) Notes() bool { return s.kind == stepNote }

// Relation is what the step's rows are of; nil where it has none.
func (s *Step) Relation() *core.Relation {
	switch {
	case s.chunk != nil:
		return s.chunk.read.Relation
	case s.kind == stepCopy && s.table.copy != nil:
		return s.table.copy.relation
	}
	return nil
}

// Clears reports that the step opens a table at the sink.
func (s *Step) Clears() bool { return s.kind == stepClear }

// Attaches reports that the step is the end of the copy of a table without a key: behind it
// the stream's part of the table goes out.
func (s *Step) Attaches() bool { return s.kind == stepCopy && s.last }

// NoteDue reports that a key came on a repair list that no step on its way makes durable.
// Then Note must go before any transaction that was told.
func (r *Run) NoteDue() bool { return r.version > r.covered }

// Note is a step that carries nothing but the token.
func (r *Run) Note() *Step {
	r.covered = r.version
	return &Step{kind: stepNote}
}

// Take is the next step, if one may go behind everything that was told so far. While it is
// on its way there is no other, save notes.
func (r *Run) Take() *Step {
	if r.step != nil || !r.Active() || !r.state.Listed || r.torn {
		return nil
	}
	if r.noteUnsure() {
		return r.taken(r.Note())
	}
	for _, t := range r.tables {
		if t.status == Pending && t.waited && t.keyed() && !t.unsure {
			return r.taken(&Step{kind: stepClear, table: t, status: Copying})
		}
	}
	if step := r.takeCopy(); step != nil {
		return step
	}
	r.expire()
	for _, c := range append([]*chunk(nil), r.chunks...) {
		if c.tainted && c.phase != chunkReading || c.phase == chunkBuffered && r.outdated(c) {
			c.table.pause.longer(r.now)
			r.discard(c)
			continue
		}
		if c.phase == chunkBuffered && r.frontier >= c.read.High {
			step := &Step{kind: stepChunk, table: c.table, status: c.table.status, chunk: c, rows: r.judge(c)}
			c.phase, c.version = chunkTaken, r.version
			c.table.sizes.came(c.read.Rows)
			r.trim(c.table)
			return r.taken(step)
		}
	}
	all := true
	for _, t := range r.tables {
		if t.working() && !t.left() { // looked at in this epoch: its relation is known
			return r.taken(&Step{kind: stepLast, table: t, status: Done})
		}
		all = all && t.status.Finished()
	}
	if all {
		return r.taken(&Step{kind: stepComplete})
	}
	return nil
}

// outdated reports that the stream has shown the relation in another shape than the chunk
// was read in, while its window was open. A shape from before is older than the chunk: the
// snapshot shows all that was received then.
func (r *Run) outdated(c *chunk) bool {
	seen := &c.table.seen
	if seen.relation == nil || seen.hash == layout(c.read.Relation) {
		return false
	}
	return seen.relation != c.seen || c.table.entries.next() > c.from
}

func (r *Run) taken(s *Step) *Step {
	r.covered = r.version
	r.step = s
	if s.table != nil {
		s.table.queued = s.kind != stepChunk
	}
	return s
}

// Unit is the step as the sink is sent it. It must be asked for when everything before it
// is durable.
func (r *Run) Unit(s *Step) *core.SnapshotUnit {
	if s.kind == stepLast && s.table.left() || s.kind == stepComplete && r.unfinished() {
		s.release() // a key came meanwhile: there is more to do first
	}
	s.version = r.version
	u := &core.SnapshotUnit{
		LSN: r.state.Floor, RunID: r.state.RunID, Generation: r.state.Generation,
		Rows: s.rows, Token: r.token(s), BackfillComplete: s.kind == stepComplete,
	}
	if s.table != nil {
		u.Relation = s.table.latest
	}
	switch s.kind {
	case stepChunk:
		u.Relation = s.chunk.read.Relation
	case stepClear:
		switch {
		case s.table.replace:
			u.First, u.Reset = true, core.ResetAll
		case !s.table.sweep: // a sweep removes at the end
			u.First, u.Reset = true, core.ResetSnapshotRows
		}
	case stepLast:
		u.Last, u.Sweep = true, s.table.sweep
	case stepCopy:
		u.Last = s.last
		if s.first {
			u.First, u.Reset = true, core.ResetAll
		}
	}
	return u
}

// Stored takes the sink's word that a step is durable.
func (r *Run) Stored(s *Step) {
	if r.step == s {
		r.step = nil
	}
	r.durable = max(r.durable, s.version)
	t := s.table
	switch s.kind {
	case stepNote:
		return
	case stepComplete:
		r.state.Complete = !r.unfinished()
		r.state.Paused = r.state.Paused && !r.state.Complete
		return
	case stepChunk:
		r.counts.Chunks++
		r.counts.Rows += uint64(len(s.rows))
		t.rows += uint64(len(s.rows))
		for b, w := range t.repair {
			if s.chunk.repairs(w) {
				t.drop(b)
			}
		}
		r.applied(s.chunk)
		r.close(s.chunk)
	case stepLast:
		if !t.left() { // else a key came meanwhile
			t.status, t.sweep = s.status, false // of this run: rows of a later generation are others
		}
	case stepClear:
		t.status = s.status
	case stepCopy:
		r.counts.Chunks++
		r.counts.Rows += uint64(len(s.rows))
		t.copied(s)
	}
	t.queued = false
}

// release makes a note of a step.
func (s *Step) release() {
	if s.table != nil {
		s.table.queued = false
	}
	s.kind, s.table, s.rows = stepNote, nil, nil
}

func (r *Run) unfinished() bool {
	for _, t := range r.tables {
		if !t.status.Finished() {
			return true
		}
	}
	return false
}

// TooBig takes the word that a chunk was too large and was not stored. It gives the step
// to send in its place, which holds no rows, and nil when it cannot be made smaller.
func (r *Run) TooBig(s *Step) *Step {
	if s.kind == stepCopy && len(s.rows) > 1 {
		r.step = nil
		half, c := len(s.rows)/2, s.table.copy
		c.pieces = append([]piece{{s.rows[:half], false}, {s.rows[half:], s.last}}, c.pieces...)
		c.started = !s.first
		s.table.queued = false
		return r.Note()
	}
	if s.kind != stepChunk || len(s.chunk.read.Rows) <= 1 {
		return nil
	}
	r.step = nil
	t := s.table
	if s.chunk.keys != nil {
		t.keysNext.tooMany(len(s.chunk.keys))
	} else {
		t.rowsNext.tooMany(len(s.chunk.read.Rows))
	}
	r.discard(s.chunk)
	return r.Note()
}
