package incremental

import "github.com/replicant-sidecar/replicant-sidecar/core"

// A token holds every range that is left and every key to repair, of all tables together,
// and must fit where it is stored. What makes it grow is bounded by what every token has:
// the tables themselves.
const (
	// bareMax is for the tables alone, before anything is copied of them.
	bareMax = core.ProgressTokenMax / 2
	// tokenMax is for a whole token.
	tokenMax = core.ProgressTokenMax / 4 * 3
)

// token encodes the token of a step. While it is too large, the table that takes most of it
// is read again as a whole.
func (r *Run) token(own *Step) []byte {
	for {
		state := r.encode(own)
		token := state.Encode()
		if len(token) <= tokenMax {
			return token
		}
		largest, size := (*table)(nil), 0
		for i, t := range r.tables {
			s := &state.Tables[i]
			if !t.keyed() || t.status != Copying || len(s.Repair) == 0 && len(t.ranges) <= 1 {
				continue // there is nothing to be saved
			}
			if n := s.size(); n > size {
				largest, size = t, n
			}
		}
		if largest == nil {
			return token
		}
		r.overflow(largest)
	}
}

// size is what a table takes of a token.
func (t *Table) size() int {
	var w writer
	w.table(t)
	return len(w.b)
}

// fits refuses tables that cannot be copied here, or would leave no room for their copy. Those
// that are gone are few.
func (r *Run) fits() error {
	bare := r.state
	for _, t := range r.tables {
		if r.set.Standby && t.detached() {
			return Unkeyed(t.Member)
		}
		if r.grown && t.status != Gone {
			bare.Tables = append(bare.Tables, fresh(t.Member))
		}
	}
	if r.grown && len(bare.Encode()) > bareMax {
		return core.NewHalt(core.HaltConfigInvalid, "snapshot", "%d tables are too many for one progress token", len(bare.Tables))
	}
	r.grown = false
	return nil
}
