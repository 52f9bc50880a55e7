package incremental

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Phases of a chunk. One that is given up is gone at once.
type phase uint8

const (
	chunkReading phase = iota + 1
	chunkBuffered
	chunkTaken // its step was taken: what the stream brings comes behind it
)

// chunk is a range or some keys of a table, with the window in which they are read.
type chunk struct {
	id     uint64
	epoch  uint64
	table  *table
	phase  phase
	span   Range     // where keys is nil
	keys   []*wanted // of the repair list
	from   int       // the window: index into the table's entries
	rows   int       // asked for
	opened time.Time
	seen   *core.Relation // what the stream had shown when the window opened

	tainted bool
	read    Read
	// version of the repair lists when the step was taken; holes are keys that stay on it.
	version uint64
	holes   map[keyBytes]struct{}
}

// repairs reports whether the key leaves the list with this chunk.
func (c *chunk) repairs(w *wanted) bool {
	if w.by != c || c.phase != chunkTaken || w.version > c.version {
		return false
	}
	_, stays := c.holes[w.key.bytes()]
	return !stays
}

// Read is what a reader found for a chunk job.
type Read struct {
	ID uint64
	// Relation is the table as the catalog showed it in the transaction of the read.
	Relation *core.Relation
	Rows     []core.Tuple
	// Snapshot is what the rows were read under, High the end of the WAL behind the read.
	Snapshot Snapshot
	High     core.LSN
	// Cut tells that rows are left in the range, or of the keys, behind the last one.
	Cut bool
	// Away: the publications did not have the table, and nothing was read.
	Away bool
}

func (r *Run) chunk(id uint64) *chunk {
	for _, c := range r.chunks {
		if c.id == id {
			return c
		}
	}
	return nil
}

// Read takes the rows of a chunk. One whose window was given up is not known any more.
func (r *Run) Read(found Read) error {
	c := r.chunk(found.ID)
	if c == nil || c.phase != chunkReading || c.epoch != r.epoch {
		return nil
	}
	t := c.table
	if found.Away {
		t.away = true
		r.Failed(c.id)
		return nil
	}
	key := t.positions(found.Relation)
	if key == nil { // the key is another one
		r.Failed(c.id)
		return nil
	}
	r.proved(&found.Snapshot)
	t.latest = found.Relation
	c.phase, c.read = chunkBuffered, found
	switch {
	case !found.Cut:
		return nil
	case len(found.Rows) == 0:
		return core.NewHalt(core.HaltInvariant, "snapshot", "a chunk was cut before its first row")
	case c.keys != nil:
		c.keep(found.Rows, key)
		t.keysNext.next = len(found.Rows)
		return nil
	}
	last, ok := keyOf(found.Rows[len(found.Rows)-1], key)
	if !ok {
		return core.NewHalt(core.HaltInvariant, "snapshot", "a row of a chunk has no key")
	}
	t.ranges = append([]Range{{Lo: last, Hi: c.span.Hi, sized: c.span.sized}}, t.ranges...)
	c.span.Hi = last
	return nil
}

// keep leaves to the chunk those keys of the list whose rows were read, and gives the others
// back: of them it is not known whether they have a row behind the last one. A list of one
// key has one row at most and is never cut: so a list comes to its end.
func (c *chunk) keep(rows []core.Tuple, key []int) {
	read := map[keyBytes]struct{}{}
	for _, row := range rows {
		k, _ := keyOf(row, key)
		read[k.bytes()] = struct{}{}
	}
	kept := c.keys[:0:0]
	for _, w := range c.keys {
		if _, ok := read[w.key.bytes()]; ok {
			kept = append(kept, w)
		} else if w.by == c {
			w.by = nil
		}
	}
	c.keys = kept
}

// Failed takes the word that a job came to nothing. It is tried again, later each time.
func (r *Run) Failed(id uint64) {
	if r.listing && r.listID == id {
		r.listing, r.relist = false, r.state.Listed
		r.listPause.longer(r.now)
		return
	}
	if c := r.chunk(id); c != nil && c.phase == chunkReading {
		c.table.pause.longer(r.now)
		c.table.unlook()
		r.discard(c)
		return
	}
	if t := r.copyOf(id); t != nil {
		r.abandon(t)
		return
	}
	if t := r.cutOf(id); t != nil {
		t.cutting = nil
		t.cutFailures++
		t.pause.longer(r.now)
		return
	}
	for _, t := range r.tables {
		if t.asked && r.waitID(t) == id {
			t.asked = false
			t.pause.longer(r.now)
		}
	}
}

// discard gives a chunk up: what it was to read goes back to the table.
func (r *Run) discard(c *chunk) {
	t := c.table
	r.counts.Discarded++
	if c.keys == nil {
		t.ranges = append([]Range{c.span}, t.ranges...)
	}
	r.close(c)
}

// close ends the window of a chunk.
func (r *Run) close(c *chunk) {
	for _, w := range c.keys {
		if w.by == c {
			w.by = nil
		}
	}
	for i := range r.chunks {
		if r.chunks[i] == c {
			r.chunks = append(r.chunks[:i], r.chunks[i+1:]...)
			break
		}
	}
	c.table.chunks--
	r.trim(c.table)
}

// trim forgets entries that no window asks for.
func (r *Run) trim(t *table) {
	before := t.entries.next()
	for _, c := range r.chunks {
		if c.table == t && c.phase != chunkTaken {
			before = min(before, c.from)
		}
	}
	t.entries.forget(before)
}

// judge is the rows of a chunk that go out: those that the stream did not touch since the
// window opened, and those of which it carried a part.
func (r *Run) judge(c *chunk) []core.Tuple {
	key := c.table.positions(c.read.Relation)
	done := c.table.entries.since(c.from)
	rows := make([]core.Tuple, 0, len(c.read.Rows))
	for _, row := range c.read.Rows {
		k, _ := keyOf(row, key)
		switch e := done[k.bytes()]; e.what {
		case nothing:
			rows = append(rows, row)
		case partial:
			r.counts.Merged++
			rows = append(rows, merged(e.image, row))
		default:
			r.counts.Dropped++
		}
	}
	c.holes = map[keyBytes]struct{}{}
	for b, e := range done {
		if e.what == hole {
			c.holes[b] = struct{}{}
		}
	}
	return rows
}
