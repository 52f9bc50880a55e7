package incremental

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// A transaction that waits for the copy of a table without a key holds the stream. A copy
// that holds it for longer than MaxHold is given up: the stream goes on without the table's
// part, which the next copy will have, and that is tried after a while, each time a longer
// one.

const (
	// putOffTimes MaxHold passes between a copy that was put off and the next, at least:
	// the stream goes on for most of the time.
	putOffTimes = 8
	putOffMax   = time.Hour
)

// hold is a stream that waits.
type hold struct {
	since time.Time // zero when it does not
	table *table
}

// Holds reports that a transaction touches a table whose copy does not have it and is not
// whole: it must not be queued yet. While it waits, Holds is asked again and again.
func (r *Run) Holds(xid uint32, changes []core.Change) bool {
	return r.holds(func() *table {
		var held *table
		for i := 0; i < len(changes) && r.unkeyed > 0 && held == nil; i++ {
			r.touches(&changes[i], func(t *table) {
				if t.detached() && t.later(xid) {
					held = t
				}
			})
		}
		return held
	})
}

// HoldsPieces is Holds for a transaction whose changes are not all known.
func (r *Run) HoldsPieces(xid uint32) bool {
	return r.holds(func() *table {
		for _, t := range r.tables {
			if t.detached() && t.later(xid) {
				return t
			}
		}
		return nil
	})
}

// holds takes the table that a transaction waits for. There is one copy at a time, so once
// it is put off there is none.
func (r *Run) holds(by func() *table) bool {
	t := by()
	switch {
	case t == nil:
		r.hold = hold{}
	case r.hold.table != t:
		r.hold = hold{r.now, t}
	case r.set.MaxHold > 0 && r.now.Sub(r.hold.since) >= r.set.MaxHold:
		if r.putOff(t); t.copy == nil {
			r.hold = hold{}
			return false
		}
	}
	return t != nil
}

// putOff gives a copy up until later, but where its end is on its way already.
func (r *Run) putOff(t *table) {
	r.abandon(t)
	if t.copy != nil {
		return
	}
	r.counts.PutOff++
	t.putOffs++
	wait := putOffTimes * r.set.MaxHold
	for i := 1; i < t.putOffs && wait < putOffMax; i++ {
		wait *= 2
	}
	t.pause.until = r.now.Add(max(min(wait, putOffMax), r.set.MaxHold))
}

// Held is the table whose copy the stream waits for, and since when; empty for none.
func (r *Run) Held() (table string, since time.Time) {
	if r.hold.table == nil {
		return "", time.Time{}
	}
	return r.hold.table.String(), r.hold.since
}

// PutOff is a table whose copy was put off, and when it is tried again; empty for none.
func (r *Run) PutOff() (table string, until time.Time) {
	for _, t := range r.tables {
		if t.putOffs > 0 && t.detached() && t.copy == nil {
			return t.String(), t.pause.until
		}
	}
	return "", time.Time{}
}

// HoldDeadline is when Holds has to be asked again though nothing has happened; zero when
// never.
func (r *Run) HoldDeadline() time.Time {
	if r.hold.table == nil || r.set.MaxHold <= 0 {
		return time.Time{}
	}
	if until := r.hold.since.Add(r.set.MaxHold); r.now.Before(until) {
		return until
	}
	return time.Time{} // the end of the copy is on its way
}
