package assembler

import "github.com/replicant-sidecar/replicant-sidecar/core"

// Mark names a cut. Marks rise; the zero Mark is before the first cut.
type Mark uint64

// Release says that nobody looks any more at what was handed out with m or with any
// mark before it. Its memory is used again.
func (a *Assembler) Release(m Mark) {
	m = min(m, a.cut-1)
	a.rows.release(m)
	a.changes.release(m)
	if m == a.cut-1 && len(a.tx.Changes) == 0 {
		a.rows.current = a.rows.current[:0]
		clear(a.changes.current)
		a.changes.current = a.changes.current[:0]
		a.start = 0
	}
}

// freeBytesMax bounds the row memory that is kept though nothing is in it.
const freeBytesMax = 8 << 20

// slabs is row memory. A slab is filled by one or more cuts, then set aside until the
// last of them is released, then filled again.
type slabs struct {
	size    int
	current []byte
	aside   []slab
	free    [][]byte
}

type slab struct {
	bytes []byte
	until Mark // the last cut that has bytes in it
}

// room is a buffer with n free bytes behind its length. When shared is true it is the
// current slab and must be stored back after it grew. A value too big for a good share
// of a slab gets memory of its own, which is left to the garbage collector.
func (s *slabs) room(n int, cut Mark) (buf []byte, shared bool) {
	if n <= cap(s.current)-len(s.current) {
		return s.current, true
	}
	if n > s.size/4 {
		return make([]byte, 0, n), false
	}
	if s.current != nil {
		s.aside = append(s.aside, slab{s.current, cut})
	}
	if last := len(s.free) - 1; last >= 0 {
		s.current, s.free = s.free[last], s.free[:last]
	} else {
		s.current = make([]byte, 0, s.size)
	}
	return s.current, true
}

func (s *slabs) release(m Mark) {
	done := 0
	for done < len(s.aside) && s.aside[done].until <= m {
		if (len(s.free)+1)*s.size <= freeBytesMax {
			s.free = append(s.free, s.aside[done].bytes[:0])
		}
		s.aside[done].bytes = nil
		done++
	}
	s.aside = append(s.aside[:0], s.aside[done:]...)
}

// freeChangesMax bounds the changes in chunks that are kept though nothing is in them.
const freeChangesMax = 64 * 1024

// chunks is memory for changes. The changes of a cut lie in one piece, so a chunk that
// is too small for the open cut is left for a bigger one.
type chunks struct {
	least    int // changes in a new chunk
	current  []core.Change
	aside    []chunk
	free     [][]core.Change
	freeSize int
}

type chunk struct {
	changes []core.Change
	until   Mark
}

// grow moves the open cut, which begins at start, to a chunk with at least as much room
// again, and returns where it begins there.
func (c *chunks) grow(start int, cut Mark) int {
	open := c.current[start:]
	next := c.get(max(c.least, 2*len(open)))
	next = append(next, open...)
	if c.current != nil {
		c.aside = append(c.aside, chunk{c.current, cut - 1})
	}
	c.current = next
	return 0
}

// get prefers the biggest free chunk: where one transaction needed it, the next will.
func (c *chunks) get(n int) []core.Change {
	best := -1
	for i := range c.free {
		if cap(c.free[i]) >= n && (best < 0 || cap(c.free[i]) > cap(c.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]core.Change, 0, n)
	}
	found, last := c.free[best], len(c.free)-1
	c.free[best] = c.free[last]
	c.free[last] = nil
	c.free = c.free[:last]
	c.freeSize -= cap(found)
	return found
}

func (c *chunks) release(m Mark) {
	done := 0
	for done < len(c.aside) && c.aside[done].until <= m {
		changes := c.aside[done].changes
		if c.freeSize+cap(changes) <= freeChangesMax {
			clear(changes) // so that no old row is kept alive
			c.free = append(c.free, changes[:0])
			c.freeSize += cap(changes)
		}
		c.aside[done].changes = nil
		done++
	}
	c.aside = append(c.aside[:0], c.aside[done:]...)
}
