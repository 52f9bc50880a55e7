package incremental

import "time"

// amount is how many rows or keys the next chunk of a table reads.
type amount struct{ next, most int }

func newAmount(most int) amount { return amount{most, most} }

// halve makes the next chunk smaller after one whose window had to be given up.
func (a *amount) halve() { a.next = min(a.next, max(a.next/2, rowsMin)) }

// grow makes up for that, chunk by chunk.
func (a *amount) grow() { a.next = min(a.next+a.next/4+1, a.most) }

// tooMany: a unit of so many was refused, and so would the next one be.
func (a *amount) tooMany(n int) {
	a.most = max(min(a.next, n)/2, 1)
	a.next = a.most
}

// pause paces what is tried again.
type pause struct {
	wait  time.Duration
	until time.Time
}

// Pauses between tries.
const (
	pauseMin = 2 * time.Millisecond
	pauseMax = time.Second
)

func (p *pause) longer(now time.Time) {
	p.wait = min(max(2*p.wait, pauseMin), pauseMax)
	p.until = now.Add(p.wait)
}

func (p *pause) over(now time.Time) bool { return !now.Before(p.until) }

// crowded gives up the windows of a table that changes faster than its chunks are applied,
// and makes the next ones smaller.
func (r *Run) crowded(t *table) {
	t.smaller(r.now)
	r.giveUp(t)
}

func (t *table) smaller(now time.Time) {
	t.rowsNext.halve()
	t.keysNext.halve()
	t.pause.longer(now)
}

// expire gives up chunks that are older than their age limit: their window costs memory, and
// the stream touches ever more of their rows. Where it takes as long as that to apply any
// chunk, the limit must not keep the copy from its end: each time it is twice as long, until
// a chunk was applied, and then at least twice as long as that one took.
func (r *Run) expire() {
	for _, t := range r.tables {
		late := false
		for _, c := range append([]*chunk(nil), r.chunks...) {
			if c.table == t && c.phase != chunkTaken && r.now.Sub(c.opened) > t.patience {
				r.discard(c)
				late = true
			}
		}
		if late {
			t.smaller(r.now)
			t.patience *= 2
		}
	}
}

// applied ends what a chunk that was given up has brought about. A list that was cut is not
// made longer again by the very chunk that has shortened it: see keep.
func (r *Run) applied(c *chunk) {
	t := c.table
	switch {
	case c.keys == nil:
		t.rowsNext.grow()
	case !c.read.Cut:
		t.keysNext.grow()
	}
	t.pause.wait = 0
	t.patience = max(r.set.ChunkAge, 2*r.now.Sub(c.opened))
}
