package snapshot

import "hash/maphash"

// pageLen is the number of entries in a page: memory grows by pages and is never copied.
const pageLen = 1 << 16

// stateSet numbers states in the order in which they were added. The states lie in pages
// and the table holds their numbers alone, about 100 bytes a state in all.
type stateSet[S comparable] struct {
	seed  maphash.Seed
	pages []*[pageLen]S
	n     int
	table []uint32 // 1 + number, or 0; its length is a power of two
}

func newStateSet[S comparable]() *stateSet[S] {
	return &stateSet[S]{seed: maphash.MakeSeed(), table: make([]uint32, 1<<12)}
}

func (s *stateSet[S]) len() int { return s.n }

// at is the state of a number. It stays where it is.
func (s *stateSet[S]) at(i int) *S { return &s.pages[i/pageLen][i%pageLen] }

// add gives the number of a state and whether it was new.
func (s *stateSet[S]) add(state *S) (number int, added bool) {
	if s.n*3 > len(s.table)*2 {
		s.grow()
	}
	place := s.place(state)
	if found := s.table[place]; found != 0 {
		return int(found - 1), false
	}
	if s.n%pageLen == 0 {
		s.pages = append(s.pages, new([pageLen]S))
	}
	*s.at(s.n) = *state
	s.n++
	s.table[place] = uint32(s.n)
	return s.n - 1, true
}

// place is where the state stands in the table, or where it belongs.
func (s *stateSet[S]) place(state *S) uint64 {
	mask := uint64(len(s.table) - 1)
	place := maphash.Comparable(s.seed, *state) & mask
	for s.table[place] != 0 && *s.at(int(s.table[place] - 1)) != *state {
		place = (place + 1) & mask
	}
	return place
}

func (s *stateSet[S]) grow() {
	s.table = make([]uint32, 2*len(s.table))
	for i := range s.n {
		s.table[s.place(s.at(i))] = uint32(i + 1)
	}
}

// column is a long list of numbers.
type column struct {
	pages []*[pageLen]uint32
	n     int
}

func (c *column) len() int { return c.n }

func (c *column) at(i int) uint32 { return c.pages[i/pageLen][i%pageLen] }

func (c *column) append(v uint32) {
	if c.n%pageLen == 0 {
		c.pages = append(c.pages, new([pageLen]uint32))
	}
	c.pages[c.n/pageLen][c.n%pageLen] = v
	c.n++
}
