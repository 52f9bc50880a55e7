package incremental

import "slices"

// Where tables come and go, as partitions do, those that are gone would fill the token in the
// end. So some of them are remembered, for people and because one may come back, and no more.
// What is lost with the others is whose rows the sink has: after that every table that comes
// later is emptied there before it is copied.

// goneMost tables that are gone are remembered.
const goneMost = 100

// leaveOut forgets tables that are gone, those first that became known first.
func (r *Run) leaveOut() {
	gone := 0
	for _, t := range r.tables {
		if t.status == Gone {
			gone++
		}
	}
	r.tables = slices.DeleteFunc(r.tables, func(t *table) bool {
		if gone <= goneMost || t.status != Gone || r.needs(t) {
			return false
		}
		gone--
		r.state.Forgot = true
		if r.byOID[t.OID] == t {
			delete(r.byOID, t.OID)
		}
		return true
	})
}

// needs reports that something is on its way for a table that is gone, or that the stream may
// bring once more what its copy has.
func (r *Run) needs(t *table) bool {
	return t.chunks > 0 || t.copy != nil || r.step != nil && r.step.table == t || t.high > r.stored
}
