package incremental

import "github.com/replicant-sidecar/replicant-sidecar/core"

// A sink whose checkpoint is the sidecar's may be given a transaction twice. A key change
// that leaves a column out finds the row that had it gone the second time. So such rows are
// read again, also in a stream beside which nothing is copied: its run knows the tables, all
// of them done, and has something to do only when a change says so.

// opens reports that a change may bring a row to a key without all of its columns.
func opens(c *core.Change) bool {
	return (c.Op == core.OpInsert || c.Op == core.OpUpdate && !c.Old.IsZero()) && c.New.Has(core.ValueUnchanged)
}

// Opens reports whether any of the changes may do so.
func Opens(changes []core.Change) bool {
	for i := range changes {
		if opens(&changes[i]) {
			return true
		}
	}
	return false
}

// Unknown reports that a change may leave a row without a column in a table that this session
// has not looked for yet: whether its key can be read again is not known.
func (r *Run) Unknown(changes []core.Change) bool {
	for i := range changes {
		if c := &changes[i]; !r.looked && opens(c) && r.byOID[c.Relation.OID] == nil {
			return true
		}
	}
	return false
}

// Knows reports whether the publications were looked at in this session.
func (r *Run) Knows() bool { return r.looked }

// repairs makes a run that was complete one that repairs rows.
func (r *Run) repairs() {
	if r.state.Complete {
		r.state.Kind = KindRepair
	}
}

// repairable takes the tables that can be read. None of them is copied. Where a token could
// not hold them there are none.
func (r *Run) repairable(members []Member) error {
	r.state.Listed = true
	for _, m := range members {
		t := r.byOID[m.OID]
		switch {
		case t == nil:
			n := fresh(m)
			n.Status, n.Ranges = Done, nil
			r.put(newTable(n, r.set))
		case t.status == Gone:
			t.Member, t.status, t.ranges, t.seen = m, Done, nil, shape{}
			t.repair, t.repairBytes, r.grown = map[keyBytes]*wanted{}, 0, true
		}
	}
	r.countUnkeyed()
	err := r.fits()
	if err != nil && !r.unfinished() {
		r.tables, r.byOID = nil, map[uint32]*table{}
	}
	return err
}

// Repairing reports that the token is of a run that repairs rows and copies nothing: a stream
// beside which nothing is copied may go on with it.
func (s *State) Repairing() bool { return s.Kind == KindRepair }
