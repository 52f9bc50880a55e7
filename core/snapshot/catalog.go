package snapshot

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Tables lists what the publications stream, ordered by schema and name. conn decides
// under which snapshot the catalog is read: its transaction is used as it is found.
// Publications that contradict each other are a *core.Halt; other errors are the
// driver's own.
func Tables(ctx context.Context, conn Querier, publications []string) ([]*Table, error) {
	major, err := majorOf(conn)
	if err != nil {
		return nil, err
	}
	members, err := readMembers(ctx, conn, major, publications)
	if err != nil || len(members) == 0 {
		return nil, err
	}
	oids := make([]string, 0, len(members))
	for _, m := range members {
		if len(oids) == 0 || oids[len(oids)-1] != m.oid {
			oids = append(oids, m.oid)
		}
	}
	ancestors, err := readAncestors(ctx, conn, oids)
	if err != nil {
		return nil, err
	}
	unions := unite(members, func(oid string, present func(string) bool) bool {
		return slices.ContainsFunc(ancestors[oid], present)
	})
	facts, err := readFacts(ctx, conn, oids, major)
	if err != nil {
		return nil, err
	}
	var tables []*Table
	for _, u := range unions {
		f, ok := facts[u.oid]
		if !ok {
			continue // dropped between two questions: it is streamed no more
		}
		table, err := u.table(f, major)
		if err != nil {
			return nil, err
		}
		tables = append(tables, table)
	}
	slices.SortFunc(tables, func(a, b *Table) int {
		if c := strings.Compare(a.Relation.Schema, b.Relation.Schema); c != 0 {
			return c
		}
		return strings.Compare(a.Relation.Name, b.Relation.Name)
	})
	return tables, nil
}

// table puts together what is known of one relation.
func (u union) table(f *facts, major int) (*Table, error) {
	columns, err := u.columns(f.schema+"."+f.name, f.attributes, major)
	if err != nil {
		return nil, err
	}
	t := &Table{
		Relation: core.Relation{OID: f.oid, Schema: f.schema, Name: f.name, Identity: f.identity, Columns: make([]core.Column, 0, len(columns))},
		Filter:   u.filter(), Partitioned: f.partitioned, Leaves: f.leaves,
		RowSecurity: f.rowSecurity,
	}
	for _, a := range columns {
		t.Relation.Columns = append(t.Relation.Columns, core.Column{
			Name: a.name, TypeOID: a.typeOID, TypeModifier: a.modifier,
			Identity: f.identity == core.IdentityFull || slices.Contains(f.streamedKey(), a.number),
		})
	}
	t.Missing = f.missing(columns)
	t.Key, t.KeyIndex = f.key(columns)
	for _, i := range t.Key {
		t.KeyCollations = append(t.KeyCollations, columns[i].collation)
	}
	return t, nil
}

// attribute is one column in pg_attribute.
type attribute struct {
	number, name string
	typeOID      uint32
	modifier     int32
	generated    bool
	readable     bool
	collation    string // with its version; empty for a type that has none
}

// index is a unique index whose columns can tell rows apart at once.
type index struct {
	oid              uint32
	primary, replica bool
	columns          []string // attribute numbers in the index's order
}

// facts is what the catalog says of one relation, whoever publishes it.
type facts struct {
	oid          uint32
	schema, name string
	identity     core.ReplicaIdentity
	partitioned  bool
	rowSecurity  bool
	// What the role may do, whose name is role: use the schema, and read which partition a
	// row of a root is in.
	schemaUsable, originReadable bool
	role                         string
	attributes                   []attribute
	indexes                      []index
	leaves                       []Leaf
}

// streamedKey is the columns that the stream flags under DEFAULT and INDEX.
func (f *facts) streamedKey() []string {
	for _, i := range f.indexes {
		if f.identity == core.IdentityDefault && i.primary || f.identity == core.IdentityIndex && i.replica {
			return i.columns
		}
	}
	return nil
}

// key is the columns by which a streamed change names its row, and by which a sink tells rows
// apart: those of the identity's index, under FULL the primary key. Another unique index is
// none: a sink does not know of it, and would compare whole rows. There is no key where a
// column of it is not streamed.
func (f *facts) key(streamed []attribute) ([]int, uint32) {
	for _, i := range f.indexes {
		names := i.primary
		switch f.identity {
		case core.IdentityDefault, core.IdentityFull:
		case core.IdentityIndex:
			names = i.replica
		default:
			return nil, 0
		}
		if key := positions(i.columns, streamed); names && key != nil {
			return key, i.oid
		}
	}
	return nil, 0
}

// positions finds columns among the streamed ones; nil when one is missing.
func positions(columns []string, streamed []attribute) []int {
	var at []int
	for _, number := range columns {
		i := slices.IndexFunc(streamed, func(a attribute) bool { return a.number == number })
		if i < 0 {
			return nil
		}
		at = append(at, i)
	}
	return at
}

func parseOID(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, errShape
	}
	return uint32(n), nil
}

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, errShape
	}
	return int64(n), nil
}
