package incremental

import "github.com/replicant-sidecar/replicant-sidecar/core"

// A table without a key is copied under one snapshot. Until its copy is whole it is
// detached: its part is left out of every transaction that the snapshot shows, or that came
// before it, and the first other transaction that touches it waits for the copy. Behind the
// copy the table is attached. A copy that was not whole begins anew, with an empty table.

// copying is a copy in progress.
type copying struct {
	id uint64
	// shown is nil until the snapshot is known; high is the end of the WAL behind it.
	shown    *Snapshot
	high     core.LSN
	relation *core.Relation
	pieces   []piece
	pulled   bool // a piece is being fetched
	started  bool // the first piece was taken
}

type piece struct {
	rows []core.Tuple
	last bool
}

func (t *table) keyed() bool { return len(t.Key) > 0 }

// Unkeyed is the halt for a table that cannot be copied: a standby does not tell which
// transactions its snapshots show, so nothing could be stripped for sure.
func Unkeyed(m Member) *core.Halt {
	halt := core.NewHalt(core.HaltConfigInvalid, "snapshot",
		"the source is a standby, and a table without a key is copied from a primary alone: give it a key, take it out of the publication, or read from the primary")
	halt.Relation = m.String()
	return halt
}

// detached reports that the stream's part of a table does not go out.
func (t *table) detached() bool { return !t.keyed() && !t.status.Finished() }

// touches are the tables without a key that a change is of, as far as those of one
// transaction must be told apart.
func (r *Run) touches(c *core.Change, f func(*table)) {
	if c.Op == core.OpTruncate {
		for _, relation := range c.Truncate.Relations {
			if t := r.byOID[relation.OID]; t != nil && !t.keyed() {
				f(t)
			}
		}
	} else if c.Relation != nil {
		if t := r.byOID[c.Relation.OID]; t != nil && !t.keyed() {
			f(t)
		}
	}
}

// later reports that a transaction is none that the open copy of the table has in it.
func (t *table) later(xid uint32) bool {
	return t.copy != nil && (t.copy.shown == nil || !t.copy.shown.Visible(xid))
}

// leftOut reports whether the table's part of a transaction, whose commit record stands at
// commit, is in its copy already or will be in the next one.
func (t *table) leftOut(xid uint32, commit core.LSN) bool {
	return t.detached() || commit < t.high && t.shown.Visible(xid)
}

// Strip takes out of a transaction what the copies of tables without a key have, or will
// have. It works in place.
func (r *Run) Strip(xid uint32, commit core.LSN, changes []core.Change) []core.Change {
	if r.unkeyed == 0 {
		return changes
	}
	kept := changes[:0]
	for i := range changes {
		c := changes[i]
		out := 0
		r.touches(&c, func(t *table) {
			if t.leftOut(xid, commit) {
				out++
			}
		})
		switch {
		case out == 0:
			kept = append(kept, c)
		case c.Op == core.OpTruncate && out < len(c.Truncate.Relations):
			truncate := *c.Truncate
			truncate.Relations = nil
			for _, relation := range c.Truncate.Relations {
				if t := r.byOID[relation.OID]; t == nil || t.keyed() || !t.leftOut(xid, commit) {
					truncate.Relations = append(truncate.Relations, relation)
				}
			}
			c.Truncate = &truncate
			kept = append(kept, c)
		}
	}
	return kept
}

// openCopy begins the copy of a table without a key; there is one at a time.
func (r *Run) openCopy() (Job, bool) {
	var next *table
	for _, t := range r.tables {
		if t.copy != nil {
			return Job{}, false
		}
		if next == nil && t.detached() && t.waited && !t.unsure && t.pause.over(r.now) {
			next = t
		}
	}
	if next == nil {
		return Job{}, false
	}
	r.lastID++
	next.copy = &copying{id: r.lastID}
	return Job{
		Kind: JobCopy, ID: r.lastID, Table: next.Member, Bytes: r.set.ChunkBytes, Rows: r.set.ChunkRows,
		Received: append([]uint32(nil), r.unproven...),
	}, true
}

func (r *Run) copyOf(id uint64) *table {
	for _, t := range r.tables {
		if t.copy != nil && t.copy.id == id {
			return t
		}
	}
	return nil
}

// Copies reports that a copy is wanted still.
func (r *Run) Copies(id uint64) bool { return r.copyOf(id) != nil }

// Copying takes the snapshot of a copy.
func (r *Run) Copying(id uint64, shown Snapshot, high core.LSN, relation *core.Relation) {
	if t := r.copyOf(id); t != nil {
		r.proved(&shown)
		t.copy.shown, t.copy.high, t.copy.relation = &shown, high, relation
		t.latest = relation
	}
}

// Pull reports, once for each, that the next piece of a copy may be fetched.
func (r *Run) Pull() bool {
	for _, t := range r.tables {
		if c := t.copy; c != nil && c.shown != nil && !c.pulled && len(c.pieces) == 0 {
			c.pulled = true
			return true
		}
	}
	return false
}

// Piece takes rows of a copy.
func (r *Run) Piece(id uint64, rows []core.Tuple, last bool) {
	if t := r.copyOf(id); t != nil {
		t.copy.pieces = append(t.copy.pieces, piece{rows, last})
		t.copy.pulled = last
	}
}

// abandon ends a copy that is not whole. What it had delivered is removed by the first unit
// of the next.
func (r *Run) abandon(t *table) {
	if t.copy == nil || r.step != nil && r.step.table == t && r.step.last {
		return // the end of a copy is on its way: what it says may be durable already
	}
	r.counts.Discarded++
	t.copy, t.waited, t.writers = nil, false, nil
	if r.step != nil && r.step.table == t {
		r.step.release()
	}
	t.pause.longer(r.now)
}

// takeCopy is the next unit of a copy.
func (r *Run) takeCopy() *Step {
	for _, t := range r.tables {
		c := t.copy
		if c == nil || len(c.pieces) == 0 {
			continue
		}
		p := c.pieces[0]
		c.pieces = c.pieces[1:]
		s := &Step{kind: stepCopy, table: t, status: t.status, rows: p.rows, first: !c.started, last: p.last}
		if p.last {
			s.status = Done
		}
		c.started = true
		return r.taken(s)
	}
	return nil
}

// copied takes a unit of a copy as durable.
func (t *table) copied(s *Step) {
	if t.copy == nil {
		return
	}
	if s.first {
		t.rows = 0
	}
	t.rows += uint64(len(s.rows))
	if s.last {
		t.status, t.shown, t.high, t.copy = Done, *t.copy.shown, t.copy.high, nil
	}
}
