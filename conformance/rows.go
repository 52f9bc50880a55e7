package conformance

import (
	"fmt"
	"hash/fnv"
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Letters of cells.
const (
	letterText      = 't'
	letterNull      = 'n'
	letterUnchanged = 'u'
	letterAbsent    = 'a'
)

// cell is one column of a row as the wire carries it.
type cell struct {
	letter byte
	text   []byte
}

// mark stands for a cell without text in the arguments of cells.
type mark byte

// What is not a text.
const (
	null = mark(letterNull)
	kept = mark(letterUnchanged)
	gone = mark(letterAbsent)
)

// cells makes a row: strings and bytes are texts, numbers their decimals, marks
// themselves.
func cells(values ...any) []cell {
	row := make([]cell, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case mark:
			row[i] = cell{letter: byte(v)}
		case string:
			row[i] = cell{letter: letterText, text: []byte(v)}
		case []byte:
			row[i] = cell{letter: letterText, text: v}
		case cell:
			row[i] = v
		default:
			row[i] = cell{letter: letterText, text: fmt.Append(nil, v)}
		}
	}
	return row
}

// wireRow is the row in the form of the contract.
func wireRow(row []cell) *sinkv1.Row {
	if row == nil {
		return nil
	}
	letters := make([]byte, len(row))
	values := make([][]byte, len(row))
	for i, c := range row {
		letters[i], values[i] = c.letter, c.text
	}
	return &sinkv1.Row{Kinds: string(letters), Values: values}
}

// shape is one shape of one table.
type shape struct {
	relation *sinkv1.Relation
	// key has the columns that tell rows apart, none where equal rows may repeat.
	key []int
}

func (s *shape) name() tableName {
	return tableName{s.relation.GetSchemaName(), s.relation.GetTableName()}
}

func (s *shape) columns() []string {
	names := make([]string, len(s.relation.GetColumns()))
	for i, c := range s.relation.GetColumns() {
		names[i] = c.GetName()
	}
	return names
}

// tableName names a table as Postgres does.
type tableName struct{ schema, table string }

func (n tableName) String() string { return n.schema + "." + n.table }

// column describes a column in few words: "id int4 key", "note text". A column that is
// "primary" is of the primary key alone, where the identity is another index.
func column(words string) *sinkv1.Column {
	parts := strings.Fields(words)
	name, kind := parts[0], parts[1]
	c := &sinkv1.Column{Name: name, TypeOid: typeOIDs[kind], TypeModifier: -1, TypeName: kind}
	if c.TypeOid == 0 {
		c.TypeOid = 70000 + uint32(len(kind))
	}
	switch {
	case len(parts) < 3:
	case parts[2] == "primary":
		first := uint32(1)
		c.PrimaryKeyPosition = &first
	default:
		c.Identity = true
	}
	return c
}

// typeOIDs are the catalog's numbers of the types that fixtures use.
var typeOIDs = map[string]uint32{
	"bool": 16, "bytea": 17, "int8": 20, "int2": 21, "int4": 23, "text": 25, "json": 114,
	"float4": 700, "float8": 701, "money": 790, "inet": 869, "date": 1082, "time": 1083,
	"timestamp": 1114, "timestamptz": 1184, "interval": 1186, "bit": 1560, "numeric": 1700,
	"uuid": 2950, "jsonb": 3802, "int4range": 3904, "int4[]": 1007, "text[]": 1009,
}

// newShape makes a table of columns in words. A column's third word marks the key; an
// identity of full has none of its own unless the words say "key".
func newShape(oid uint32, schema, table string, identity sinkv1.ReplicaIdentity, words ...string) *shape {
	s := &shape{relation: &sinkv1.Relation{
		RelationOid: oid, SchemaName: schema, TableName: table, ReplicaIdentity: identity,
	}}
	place := uint32(0)
	for i, w := range words {
		c := column(w)
		if c.GetIdentity() {
			place++
			at := place
			if identity != sinkv1.ReplicaIdentity_REPLICA_IDENTITY_INDEX {
				c.PrimaryKeyPosition = &at
			}
			s.key = append(s.key, i)
		}
		if identity == sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL {
			c.Identity = true
		}
		s.relation.Columns = append(s.relation.Columns, c)
	}
	return s.hashed()
}

// hashed sets the hash that names this shape.
func (s *shape) hashed() *shape {
	h := fnv.New64a()
	fmt.Fprint(h, s.relation.GetRelationOid(), s.name(), s.relation.GetReplicaIdentity())
	for _, c := range s.relation.GetColumns() {
		fmt.Fprint(h, c.GetName(), c.GetTypeOid(), c.GetTypeModifier(), c.GetIdentity())
	}
	s.relation.ShapeHash = h.Sum64()
	return s
}
