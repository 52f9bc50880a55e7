package sinktest

import (
	"math/rand/v2"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Step is a change of the stream or a unit of a snapshot, for a sink to be compared with
// Mirror.
type Step struct {
	Change *core.Change
	Unit   *core.SnapshotUnit
}

// Keyed is a table with a key of two columns, whose order is not the table's, and two
// columns beside it of which one may come as unchanged. Keyless has the same columns.
var (
	Keyed = &core.Relation{OID: 7, Schema: "public", Name: "keyed", Identity: core.IdentityDefault, Columns: []core.Column{
		{Name: "b", TypeOID: 25, TypeModifier: -1, Identity: true, PrimaryKeyPosition: 2}, {Name: "n", TypeOID: 25, TypeModifier: -1},
		{Name: "a", TypeOID: 25, TypeModifier: -1, Identity: true, PrimaryKeyPosition: 1}, {Name: "doc", TypeOID: 25, TypeModifier: -1},
	}}
	Keyless = &core.Relation{OID: 8, Schema: "public", Name: "keyless", Identity: core.IdentityFull, Columns: []core.Column{
		{Name: "b", TypeOID: 25, TypeModifier: -1, Identity: true}, {Name: "n", TypeOID: 25, TypeModifier: -1, Identity: true},
		{Name: "a", TypeOID: 25, TypeModifier: -1, Identity: true}, {Name: "doc", TypeOID: 25, TypeModifier: -1, Identity: true},
	}}
)

// Steps is a story over few keys that meets every case: rows known and not, of either
// origin, key changes onto both, holes, resets, sweeps, truncates. Equal seeds give equal
// stories. What Postgres could not have done is in it too: a mirror has to bear old news.
func Steps(seed uint64, n int, relation *core.Relation) []Step {
	s := &steps{Rand: rand.New(rand.NewPCG(seed, 1)), relation: relation, generation: 1}
	list := make([]Step, n)
	for i := range list {
		if s.IntN(3) == 0 {
			list[i].Unit = s.unit()
		} else {
			list[i].Change = s.change()
		}
	}
	return list
}

type steps struct {
	*rand.Rand
	relation   *core.Relation
	generation uint64
	values     int
}

func (s *steps) keyed() bool { return s.relation == Keyed }

// value is one that was never there in tables with a key, and one of few in others, so
// that equal rows occur. One in six is NULL.
func (s *steps) value() core.Value {
	s.values++
	switch {
	case s.IntN(6) == 0:
		return core.Null()
	case s.keyed():
		return core.Text(strconv.Itoa(s.values))
	}
	return core.Text(strconv.Itoa(s.IntN(2)))
}

// row is a whole row, or one whose last column did not change.
func (s *steps) row(holed bool) core.Tuple {
	doc := s.value()
	if holed {
		doc = core.Value{Kind: core.ValueUnchanged}
	}
	return core.PackTuple(core.Text(strconv.Itoa(s.IntN(2))), s.value(), core.Text("k"+strconv.Itoa(s.IntN(3))), doc)
}

// old is the old row of a change.
func (s *steps) old() (core.Tuple, core.OldKind) {
	whole := s.row(false)
	if !s.keyed() {
		return whole, core.OldFull
	}
	absent := core.Value{Kind: core.ValueAbsent}
	return core.PackTuple(whole.Value(0), absent, whole.Value(2), absent), core.OldKey
}

func (s *steps) change() *core.Change {
	c := &core.Change{Relation: s.relation}
	switch pick := s.IntN(20); {
	case pick == 0:
		return &core.Change{Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{s.relation}}}
	case pick < 5:
		c.Op = core.OpDelete
		c.Old, c.OldKind = s.old()
	case pick < 9:
		c.Op, c.New = core.OpInsert, s.row(s.keyed() && pick == 8)
	case pick < 14 && s.keyed():
		c.Op, c.New = core.OpUpdate, s.row(s.IntN(2) == 0)
	default:
		c.Op, c.New = core.OpUpdate, s.row(s.keyed() && s.IntN(2) == 0)
		c.Old, c.OldKind = s.old()
	}
	return c
}

// unit opens a table by ALL where it has no key, since rows that are equal have no
// origin of their own, and never sweeps it.
func (s *steps) unit() *core.SnapshotUnit {
	u := &core.SnapshotUnit{RunID: [16]byte{1}, Generation: s.generation, Relation: s.relation}
	switch s.IntN(8) {
	case 0:
		u.First, u.Reset = true, core.ResetAll
		if s.keyed() && s.IntN(4) > 0 {
			u.Reset = core.ResetSnapshotRows
		}
	case 1:
		u.Last, u.Sweep = true, s.keyed()
	case 2:
		s.generation++
		u.Generation = s.generation
	}
	for range s.IntN(4) {
		u.Rows = append(u.Rows, s.row(false))
	}
	return u
}
