package assembler

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// entry is a relation in force with what the hot path asks of it.
type entry struct {
	relation *core.Relation
	width    int
	size     int // EncodedMax
	// identified: some column is flagged as identity. keyed: and the identity is a key,
	// not the whole row.
	identified, keyed bool
	used              bool // by the open cut
	// told: some change or schema change named this OID, or it was known before. What
	// was never told cannot change: under a published root Postgres describes each leaf
	// too, but no row ever names it.
	told bool
	// leaves: what the partitions are like that rows came from, see noteLeaf.
	leaves leafKinds
	// arrival is the place of the last such description among all of this connection.
	arrival uint64
}

// leafKinds is a set of what leaves put into old images.
type leafKinds uint8

const (
	leafFull    leafKinds = 1 << iota // whole rows
	leafPartial                       // keys, with NULL in every other column
)

func newEntry(r *core.Relation) *entry {
	e := &entry{relation: r, width: len(r.Columns), size: r.EncodedMax()}
	for i := range r.Columns {
		e.identified = e.identified || r.Columns[i].Identity
	}
	e.keyed = e.identified && r.Identity != core.IdentityFull
	return e
}

func (e *entry) malformed(format string, args ...any) *core.Halt {
	h := core.NewHalt(core.HaltMalformedStream, "assemble", format, args...)
	h.Relation = e.relation.String()
	return h
}

type typeName struct{ schema, name string }

// relations knows every relation and type that this connection described.
type relations struct {
	byOID map[uint32]*entry
	types map[uint32]typeName
	// typesNamed counts the OIDs that came with a name.
	typesNamed map[typeName]int
	known      map[uint32]*core.Relation
	annotate   func(*core.Relation)
	arrivals   uint64 // descriptions so far, those inside of streams too

	last      *entry // the relation of the row before
	described *entry // the last description, if no row or truncate came since
	used      []*core.Relation
	usedBy    []*entry
	usedSize  int
}

func newRelations(o Options) relations {
	r := relations{
		byOID:      map[uint32]*entry{},
		types:      map[uint32]typeName{},
		typesNamed: map[typeName]int{},
		known:      map[uint32]*core.Relation{},
		annotate:   o.Annotate,
	}
	for _, k := range o.Known {
		r.known[k.OID] = k
	}
	return r
}

// use finds the relation of a row and notes that the open cut refers to it.
func (r *relations) use(oid uint32) (*entry, *core.Halt) {
	e := r.last
	if e == nil || e.relation.OID != oid {
		if e = r.byOID[oid]; e == nil {
			return nil, core.NewHalt(core.HaltUnknownRelation, "assemble", "relation OID %d was never described", oid)
		}
		r.last = e
	}
	if !e.used {
		e.used, e.told = true, true
		r.used, r.usedBy = append(r.used, e.relation), append(r.usedBy, e)
		r.usedSize += e.size
	}
	return e, nil
}

func (r *relations) forgetUsed() {
	for i, e := range r.usedBy {
		e.used = false
		r.usedBy[i] = nil
	}
	clear(r.used)
	r.used, r.usedBy, r.usedSize = r.used[:0], r.usedBy[:0], 0
}

// noteLeaf learns from a row of e that a partition of e was described just before it.
// Postgres describes a relation only in front of its own row, or, under a published
// root, the root and then the leaf in front of a row that names the root.
//
// It matters because the leaf's identity decides what is in the old image and the
// root's decides how that is labelled: a leaf with a key under a root with FULL sends
// its key as a whole old row, in which every other column looks like NULL, and a leaf
// with FULL under a root with a key sends the whole old row as a key.
func (e *entry) noteLeaf(leaf *entry) {
	switch {
	case leaf == e:
	case leaf.relation.Identity == core.IdentityFull:
		e.leaves |= leafFull
	default:
		e.leaves |= leafPartial
	}
}

// learnType remembers what the stream calls a type.
func (r *relations) learnType(t *pgoutput.Type) {
	if old, known := r.types[t.OID]; known {
		r.typesNamed[old]--
	}
	name := typeName{t.Schema, t.Name}
	r.types[t.OID] = name
	r.typesNamed[name]++
}

// typeName is the name of a type, or empty where it could be another type's: Postgres
// sends a domain under schema and name of its base type. A type that claims to be in
// pg_catalog is such a domain, and one of two OIDs with one name is.
func (r *relations) typeName(oid uint32) string {
	name, known := r.types[oid]
	if !known || name.schema == "" || r.typesNamed[name] > 1 {
		return ""
	}
	return name.schema + "." + name.name
}

// describe takes a Relation message that came as the arrival-th of the connection. An
// equal description changes nothing, not even the pointer that rows carry.
func (a *Assembler) describe(m *pgoutput.Message, arrival uint64) (Step, *core.Halt) {
	r, fresh := &a.relations, m.Relation
	if name, twice := repeatedColumn(fresh); twice {
		h := core.NewHalt(core.HaltMalformedStream, "assemble", "column %q is described twice", name)
		h.Relation = fresh.String()
		return StepNone, h
	}
	before := r.known[fresh.OID]
	last := r.byOID[fresh.OID]
	if last != nil {
		r.described = last
		if sameShape(last.relation, fresh) {
			last.arrival = arrival
			return StepNone, nil
		}
		if last.told {
			before = last.relation
		}
	}
	for i := range fresh.Columns {
		if c := &fresh.Columns[i]; c.TypeName == "" { // else the catalog said so
			c.TypeName = r.typeName(c.TypeOID)
		}
	}
	if r.annotate != nil {
		r.annotate(fresh)
	}
	e := newEntry(fresh)
	e.told, e.arrival = before != nil, arrival
	if last != nil {
		e.leaves = last.leaves
	}
	r.byOID[fresh.OID], r.last, r.described = e, nil, e
	if before == nil {
		return StepNone, nil
	}
	if a.schemaChange = classify(before, fresh); a.schemaChange != nil {
		return StepSchemaChange, nil
	}
	return StepNone, nil
}
