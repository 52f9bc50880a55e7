package incremental

import (
	"slices"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// JobKind says what a reader is to do.
type JobKind uint8

// The kinds.
const (
	// JobList lists the members of the publications.
	JobList JobKind = iota + 1
	// JobLook finds the table in the publications, and who holds a write lock on it.
	JobLook
	// JobSnapshot takes a snapshot and reads nothing.
	JobSnapshot
	// JobChunk reads rows.
	JobChunk
	// JobCut finds keys that cut a range into pieces of Rows each.
	JobCut
	// JobCopy reads a table without a key: Copying, then a Piece for each Pull.
	JobCopy
)

// Job is work for a reader. Its result goes to Listed, Looked, Shown or Read, or it Failed.
type Job struct {
	Kind  JobKind
	ID    uint64
	Table Member
	// Range or, where it is not nil, Keys: what to read.
	Range Range
	Keys  []Key
	// Rows and Bytes bound a chunk.
	Rows, Bytes int
	// Pieces is how many keys to find for a cut, at most.
	Pieces int
	// Partly leaves tables out of a list that cannot be read, instead of refusing them.
	Partly bool
	// Received are the transactions that the snapshot must show.
	Received []uint32
	// End asks for the end of the WAL behind the answer.
	End bool
	// Replayed is what a standby must have replayed before the snapshot, instead.
	Replayed core.LSN
}

// Writer is a transaction that may have written a table before it was looked at.
type Writer struct {
	XID uint32
	// Who is its process at the server, or its gid when it is prepared.
	Who string
}

// Next is the next job. At most so many are open as there is room for.
func (r *Run) Next() (Job, bool) {
	switch {
	case r.state.Floor == 0:
		return Job{}, false
	case r.lists() && !r.listing && r.listPause.over(r.now):
		r.listing, r.relist = true, false
		r.lastID++
		r.listID = r.lastID
		return Job{Kind: JobList, ID: r.lastID, Partly: r.set.Repairs}, true
	case !r.state.Listed:
		return Job{}, false
	}
	if !r.Active() {
		return Job{}, false
	}
	for _, t := range r.tables {
		if job, ok := r.wait(t); ok {
			return job, true
		}
	}
	if r.behind || r.torn {
		return Job{}, false
	}
	if job, ok := r.openCopy(); ok {
		return job, true
	}
	if job, ok := r.cut(); ok {
		return job, true
	}
	if len(r.chunks) >= r.set.Open {
		return Job{}, false
	}
	return r.open()
}

// lists reports that the publications are to be looked at. Amid a pause that is done once a
// session: a transaction that comes for the second time waits for it.
func (r *Run) lists() bool {
	if r.state.Paused {
		return !r.looked
	}
	return !r.state.Listed || r.relist
}

// wait is the next question of a table's writer wait.
func (r *Run) wait(t *table) (Job, bool) {
	if t.status.Finished() || t.waited || t.asked || !t.pause.over(r.now) {
		return Job{}, false
	}
	t.asked = true
	job := Job{Kind: JobLook, ID: r.waitID(t), Table: t.Member, End: t.unsure}
	if t.writers != nil {
		job.Kind = JobSnapshot
	}
	return job, true
}

// waitID tells the questions of tables from chunks, and from those of an epoch before: what
// was seen then says nothing of the transactions that were forgotten since.
func (r *Run) waitID(t *table) uint64 { return 1<<63 | r.epoch<<32 | uint64(t.OID) }

// Look is what a reader found for a table.
type Look struct {
	ID uint64
	// Found is false where the publications have neither the table nor one of its name.
	Found    bool
	Member   Member
	Relation *core.Relation
	Writers  []Writer
	End      core.LSN
}

// Relist looks at the publications again.
func (r *Run) Relist() { r.relist = r.state.Listed && !r.set.Repairs }

// Listed takes the tables that the publications have. Tables that came since the last time
// are copied too; those of a run that was complete make another run, whose id is next.
func (r *Run) Listed(members []Member, next [16]byte) error {
	r.listing, r.listPause, r.looked = false, pause{}, true
	switch {
	case r.set.Repairs:
		return r.repairable(members)
	case r.state.Listed:
		r.added(members, next)
		return r.fits()
	}
	r.state.Listed = true
	for _, m := range members {
		t := fresh(m)
		if r.state.Complete { // begun without a copy: the sink has what it has
			t.Status, t.Ranges = Done, nil
		}
		n := newTable(t, r.set)
		r.unsure(n)
		r.put(n)
	}
	return r.fits()
}

// added compares the publications with what the run knows.
func (r *Run) added(members []Member, next [16]byte) {
	present := map[uint32]bool{}
	for _, m := range members {
		present[m.OID] = true
		t := r.byOID[m.OID]
		if t != nil {
			t.Extent = m.Extent
		}
		if t != nil && t.status != Gone {
			continue
		}
		switch {
		case r.state.Complete:
			r.state.RunID, r.state.Kind = next, KindAdded
			r.state.Generation++
			r.activate()
		case r.state.Kind == KindRepair:
			r.state.Kind = KindAdded // no run that only repairs
		}
		if t == nil {
			n := fresh(m)
			n.Replace = r.succeeds(m) || r.state.Forgot
			t = newTable(n, r.set)
			r.unsure(t)
			r.put(t)
			continue
		}
		// It was away: what happened to its rows meanwhile was not streamed.
		r.giveUp(t)
		t.Member, t.status, t.ranges, t.replace, t.seen = m, Pending, fresh(m).Ranges, true, shape{}
		t.earlier, r.grown = false, true
		t.repair, t.repairBytes, t.suspect = map[keyBytes]*wanted{}, 0, false // of the table as it was
		t.shown, t.high, t.waited, t.asked, t.writers = Snapshot{}, 0, false, false, nil
		r.unsure(t)
	}
	for _, t := range r.tables {
		if t.status == Done && !present[t.OID] {
			t.status = Gone
			r.version++
		}
	}
	r.leaveOut()
	r.countUnkeyed()
}

// succeeds reports that a table of another OID had the name before: the sink has its rows.
func (r *Run) succeeds(m Member) bool {
	for _, t := range r.tables {
		if t.OID != m.OID && t.Schema == m.Schema && t.Name == m.Name {
			r.giveUp(t)
			t.status = Gone
			return true
		}
	}
	return false
}

// fresh is a table of which nothing was copied.
func fresh(m Member) Table {
	t := Table{Member: m, Status: Pending}
	if len(m.Key) > 0 {
		t.Ranges = Everything()
	}
	return t
}

// Looked takes a table as it is now, and who may have written it. One that is another table
// now, or names its rows by another key, is begun again.
func (r *Run) Looked(l Look) {
	t := r.asking(l.ID)
	switch {
	case t == nil:
		return
	case r.step != nil && r.step.table == t:
		t.pause.longer(r.now) // what is on its way is of the table as it was: look again
		return
	case !l.Found, t.away, t.OID != l.Member.OID && r.byOID[l.Member.OID] != nil: // or it is known as the other one
		r.giveUp(t)
		t.status = Gone
		r.version++
		return
	case !t.Same(l.Member):
		r.giveUp(t)
		delete(r.byOID, t.OID)
		if t.OID != l.Member.OID {
			r.unsure(t)
		}
		t.replace = t.replace || t.OID != l.Member.OID
		t.Member, t.status, t.seen = l.Member, Pending, shape{}
		t.repair, t.repairBytes, t.ranges = map[keyBytes]*wanted{}, 0, fresh(l.Member).Ranges
		t.shown, t.high = Snapshot{}, 0
		r.byOID[t.OID] = t
		r.countUnkeyed()
	}
	if t.settled {
		l.Writers = nil
	}
	t.latest, t.writers, t.Extent = l.Relation, l.Writers, l.Member.Extent
	t.waited = len(l.Writers) == 0
	r.written(t, l.End)
	t.pause = pause{}
}

// Shown takes a snapshot of a writer wait, and the end of the WAL behind it: the wait is
// over once each writer has ended and is visible.
func (r *Run) Shown(id uint64, s Snapshot, end core.LSN) {
	t := r.asking(id)
	if t == nil {
		return
	}
	left := t.writers[:0]
	for _, w := range t.writers {
		if !s.Visible(w.XID) {
			left = append(left, w)
		}
	}
	t.writers = left
	t.pause.longer(r.now)
	if t.waited = len(left) == 0; t.waited {
		r.written(t, end)
		t.pause = pause{}
	}
}

func (r *Run) asking(id uint64) *table {
	for _, t := range r.tables {
		if t.asked && r.waitID(t) == id {
			t.asked = false
			return t
		}
	}
	return nil
}

// open begins a window, for the table that has fewest.
func (r *Run) open() (Job, bool) {
	var t *table
	for _, other := range r.tables {
		if other.working() && !other.queued && other.pause.over(r.now) && r.ready(other) && (t == nil || other.chunks < t.chunks) {
			t = other
		}
	}
	if t == nil {
		return Job{}, false
	}
	r.lastID++
	c := &chunk{
		id: r.lastID, epoch: r.epoch, table: t, phase: chunkReading, from: t.entries.next(), rows: t.rowsNext.next,
		seen: t.seen.relation, opened: r.now,
	}
	job := Job{
		Kind: JobChunk, ID: c.id, Table: t.Member, Rows: c.rows, Bytes: r.set.ChunkBytes,
		Received: append([]uint32(nil), r.unproven...), Replayed: r.frontier,
	}
	if at := r.readable(t); at >= 0 {
		c.span = t.ranges[at]
		t.ranges = slices.Concat(t.ranges[:at], t.ranges[at+1:])
		job.Range = c.span
	} else {
		for _, w := range t.repair {
			if w.by == nil && len(c.keys) < t.keysNext.next {
				w.by = c
				c.keys = append(c.keys, w)
				job.Keys = append(job.Keys, w.key)
			}
		}
	}
	t.chunks++
	r.chunks = append(r.chunks, c)
	return job, true
}

// ready reports whether the table has something that no chunk reads, and that one may.
func (r *Run) ready(t *table) bool {
	if len(t.ranges) > 0 {
		return r.readable(t) >= 0
	}
	for _, w := range t.repair {
		if w.by == nil {
			return true
		}
	}
	return false
}

// Deadline is when Next may have a job, or Take a step, without anything else happening;
// zero when never.
func (r *Run) Deadline() time.Time {
	var first time.Time
	if r.lists() && !r.listPause.over(r.now) {
		first = r.listPause.until
	}
	if !r.Active() || r.behind {
		return first
	}
	for _, t := range r.tables {
		if t.pause.until.IsZero() || t.status.Finished() || t.pause.over(r.now) {
			continue
		}
		if first.IsZero() || t.pause.until.Before(first) {
			first = t.pause.until
		}
	}
	return first
}

// Waiting reports that rows are here, and the stream has not come as far as they have.
func (r *Run) Waiting() bool {
	for _, c := range r.chunks {
		if c.phase == chunkBuffered && r.frontier < c.read.High {
			return true
		}
	}
	return false
}
