package incremental

import "github.com/replicant-sidecar/replicant-sidecar/core"

// Change takes one change of the stream, when it is received. again says that the sink may
// have had it before, in a mode in which it would then take effect twice.
func (r *Run) Change(c *core.Change, again bool) {
	switch c.Op {
	case core.OpTruncate:
		for _, relation := range c.Truncate.Relations {
			if t := r.byOID[relation.OID]; t != nil {
				r.taint(t)
			}
		}
	case core.OpInsert, core.OpUpdate, core.OpDelete:
		if t := r.byOID[c.Relation.OID]; t != nil && t.keyed() && t.status != Gone && t.status != Cancelled {
			r.change(t, c, again)
		}
	}
}

// taint gives up every chunk of a table that is not on its way.
func (r *Run) taint(t *table) {
	for _, c := range r.chunks {
		if c.table == t && c.phase != chunkTaken {
			c.tainted = true
		}
	}
}

func (r *Run) change(t *table, c *core.Change, again bool) {
	s := t.look(c.Relation)
	if t.chunks == 0 && !opens(c) {
		return
	}
	before, after, ok := keys(c, s)
	if !ok {
		r.taint(t)
		if t.status == Copying && c.Op != core.OpDelete && c.New.Has(core.ValueUnchanged) {
			r.overflow(t) // a hole, and its key is not known
		}
		return
	}
	moved := before != nil && after != nil && before.bytes() != after.bytes()
	unknown := c.Op != core.OpDelete && c.New.Has(core.ValueUnchanged)
	if t.chunks > 0 {
		r.record(t, c, before, after, moved, unknown)
	}
	if unknown && (moved || c.Op == core.OpInsert) {
		r.hole(t, before, after, c.Op == core.OpInsert, again)
	}
}

// keys are those of the row before and after a change; nil where there is no such row. An
// update that does not tell the old key has not changed it.
func keys(c *core.Change, s *shape) (before, after Key, ok bool) {
	if s.key == nil {
		return nil, nil, false
	}
	if c.Op != core.OpInsert && !c.Old.IsZero() {
		if before, ok = keyOf(c.Old, s.key); !ok {
			return nil, nil, false
		}
	}
	if c.Op == core.OpDelete {
		return before, nil, before != nil
	}
	after, ok = keyOf(c.New, s.key)
	return before, after, ok
}

// record notes what the change does, for every open window of the table.
func (r *Run) record(t *table, c *core.Change, before, after Key, moved, unknown bool) {
	if moved || c.Op == core.OpDelete {
		t.entries.add(entry{key: before.bytes(), what: deleted})
	}
	if after == nil {
		return
	}
	e := entry{key: after.bytes(), what: full}
	switch {
	case unknown && (moved || c.Op == core.OpInsert):
		e.what = hole
	case unknown:
		e.what, e.image = partial, c.New.Clone()
	}
	t.entries.add(e)
	if t.entries.bytes > entriesBytesMax {
		r.crowded(t)
	}
}

// hole is a row that came to a key without all of its columns. The sink may not have had
// it: so the key is read again, from now on or from the token on. Once all ranges of the
// table are there, a row lacks a column only if its old key is on the list.
func (r *Run) hole(t *table, before, after Key, inserted, again bool) {
	r.counts.Holes++
	switch {
	case t.status == Pending && !again:
		return // it is read as a whole, later than this
	case inserted, again, t.status == Copying && r.unread(t):
	case t.repair[before.bytes()] != nil:
	default:
		return
	}
	r.version++
	r.repairs()
	r.activate()
	t.want(after, r.version)
	if t.status == Done {
		t.status = Copying
	}
	if len(t.repair) > repairMax || t.repairBytes > repairBytesMax {
		r.overflow(t)
	}
}

// unread reports whether a range of the table is not at the sink.
func (r *Run) unread(t *table) bool {
	if len(t.ranges) > 0 {
		return true
	}
	for _, c := range r.chunks {
		if c.table == t && c.keys == nil {
			return true
		}
	}
	return false
}

// overflow reads the whole table again instead of single keys.
func (r *Run) overflow(t *table) {
	r.version++
	r.giveUp(t)
	t.everything()
}
