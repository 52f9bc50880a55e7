// Package states holds what an exhaustive search has seen: states and numbers by the tens of
// millions, in pages that are never copied.
package states

import "hash/maphash"

// pageLen is the number of entries in a page: memory grows by pages and is never copied.
const pageLen = 1 << 16

// Set numbers states in the order in which they were added. The states lie in pages
// and the table holds their numbers alone, about 100 bytes a state in all.
type Set[S comparable] struct {
	seed  maphash.Seed
	pages []*[pageLen]S
	n     int
	table []uint32 // 1 + number, or 0; its length is a power of two
}

// New makes an empty set.
func New[S comparable]() *Set[S] {
	return &Set[S]{seed: maphash.MakeSeed(), table: make([]uint32, 1<<12)}
}

// Len is how many states there are.
func (s *Set[S]) Len() int { return s.n }

// At is the state of a number. It stays where it is.
func (s *Set[S]) At(i int) *S { return &s.pages[i/pageLen][i%pageLen] }

// Add gives the number of a state and whether it was new.
func (s *Set[S]) Add(state *S) (number int, added bool) {
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
	*s.At(s.n) = *state
	s.n++
	s.table[place] = uint32(s.n)
	return s.n - 1, true
}

// place is where the state stands in the table, or where it belongs.
func (s *Set[S]) place(state *S) uint64 {
	mask := uint64(len(s.table) - 1)
	place := maphash.Comparable(s.seed, *state) & mask
	for s.table[place] != 0 && *s.At(int(s.table[place] - 1)) != *state {
		place = (place + 1) & mask
	}
	return place
}

func (s *Set[S]) grow() {
	s.table = make([]uint32, 2*len(s.table))
	for i := range s.n {
		s.table[s.place(s.At(i))] = uint32(i + 1)
	}
}

// Column is a long list of numbers.
type Column struct {
	pages []*[pageLen]uint32
	n     int
}

// Len is how many numbers there are.
func (c *Column) Len() int { return c.n }

// At is the number at a place.
func (c *Column) At(i int) uint32 { return c.pages[i/pageLen][i%pageLen] }

// Append puts a number behind the last one.
func (c *Column) Append(v uint32) {
	if c.n%pageLen == 0 {
		c.pages = append(c.pages, new([pageLen]uint32))
	}
	c.pages[c.n/pageLen][c.n%pageLen] = v
	c.n++
}
