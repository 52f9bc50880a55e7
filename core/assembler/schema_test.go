package assembler

import (
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/stretchr/testify/require"
)

func shape(change func(*core.Relation), identity core.ReplicaIdentity, columns ...string) *core.Relation {
	r := table(tOID, identity, columns...).Relation
	if change != nil {
		change(r)
	}
	return r
}

func TestSchemaChanges(t *testing.T) {
	const d, f, i = core.IdentityDefault, core.IdentityFull, core.IdentityIndex
	plain := shape(nil, d, "id*", "a", "b")
	for _, c := range []struct {
		name                    string
		before, after           *core.Relation
		kind                    core.SchemaChangeKind // 0: no change
		what                    string
		added, dropped, retyped []string
	}{
		{"equal", plain, shape(nil, d, "id*", "a", "b"), 0, "", nil, nil, nil},
		{"reordered", plain, shape(nil, d, "b", "id*", "a"), 0, "", nil, nil, nil},
		{"added", plain, shape(nil, d, "id*", "a", "b", "c"), core.SchemaAdditive, columnsAdded, []string{"c"}, nil, nil},
		{"added and reordered", plain, shape(nil, d, "x", "b", "a", "id*", "c"), core.SchemaAdditive, columnsAdded, []string{"x", "c"}, nil, nil},
		{"added under full", shape(nil, f, "id*"), shape(nil, f, "id*", "a*"), core.SchemaAdditive, columnsAdded, []string{"a"}, nil, nil},
		{"dropped", plain, shape(nil, d, "id*", "b"), core.SchemaDestructive, columnsDropped, nil, []string{"a"}, nil},
		{"key dropped", plain, shape(nil, d, "a", "b"), core.SchemaDestructive, columnsDropped, nil, []string{"id"}, nil},
		{"renamed column", plain, shape(nil, d, "id*", "a2", "b"), core.SchemaDestructive, columnsChanged, []string{"a2"}, []string{"a"}, nil},
		{"dropped two, added one", plain, shape(nil, d, "id*", "c"), core.SchemaDestructive, columnsChanged, []string{"c"}, []string{"a", "b"}, nil},
		{"retyped", plain, shape(func(r *core.Relation) { r.Columns[1].TypeOID = 20 }, d, "id*", "a", "b"), core.SchemaDestructive, typeChanged, nil, nil, []string{"a"}},
		{"modifier", plain, shape(func(r *core.Relation) { r.Columns[2].TypeModifier = 14 }, d, "id*", "a", "b"), core.SchemaDestructive, typeChanged, nil, nil, []string{"b"}},
		{"retyped and added", plain, shape(func(r *core.Relation) { r.Columns[1].TypeOID = 20 }, d, "id*", "a", "b", "c"), core.SchemaDestructive, typeChanged, []string{"c"}, nil, []string{"a"}},
		{"identity setting", plain, shape(nil, i, "id*", "a", "b"), core.SchemaDestructive, identityChanged, nil, nil, nil},
		{"identity full", plain, shape(nil, f, "id*", "a*", "b*"), core.SchemaDestructive, identityChanged, nil, nil, nil},
		{"key moved", plain, shape(nil, d, "id", "a*", "b"), core.SchemaDestructive, identityChanged, nil, nil, nil},
		{"added to the key", plain, shape(nil, d, "id*", "a", "b", "c*"), core.SchemaDestructive, identityChanged, []string{"c"}, nil, nil},
		{"table renamed", plain, shape(func(r *core.Relation) { r.Name = "t2" }, d, "id*", "a", "b"), core.SchemaDestructive, renamed, nil, nil, nil},
		{"schema moved and added", plain, shape(func(r *core.Relation) { r.Schema = "s2" }, d, "id*", "a", "b", "c"), core.SchemaDestructive, renamed, []string{"c"}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, known := range []bool{false, true} { // told by a row, or known before
				a := New(Options{})
				if known {
					a = New(Options{Known: []*core.Relation{c.before}})
				} else {
					relation := pgoutput.Message{Kind: pgoutput.KindRelation, Relation: c.before}
					require.Equal(t, StepNone, push(t, a, begin(100), relation), "a first description is no change")
					push(t, a, truncateOf(tOID), commit(100))
					a.Take()
				}
				step := push(t, a, begin(200), pgoutput.Message{Kind: pgoutput.KindRelation, Relation: c.after})
				push(t, a, truncateOf(tOID))
				tx, _ := a.Open()
				inForce := tx.Changes[0].Truncate.Relations[0]
				if c.kind == 0 {
					require.Equal(t, StepNone, step)
					if c.name == "equal" && !known {
						require.Same(t, c.before, inForce, "an equal description keeps the pointer")
					} else {
						require.Same(t, c.after, inForce)
					}
					continue
				}
				require.Equal(t, StepSchemaChange, step)
				require.Equal(t, &core.SchemaChange{Kind: c.kind, What: c.what, Before: c.before, After: c.after,
					Added: c.added, Dropped: c.dropped, Retyped: c.retyped}, a.SchemaChange())
				require.Same(t, c.after, inForce, "the new shape is in force")
			}
		})
	}
}

// sameShape and ShapeHash must not drift apart.
func TestSameShapeIsWhatShapeHashSays(t *testing.T) {
	shapes := []*core.Relation{
		shape(nil, 'd', "id*", "a"), shape(nil, 'd', "id*", "a"), shape(nil, 'd', "a", "id*"), shape(nil, 'i', "id*", "a"),
		shape(nil, 'd', "id", "a"), shape(nil, 'd', "id*", "a", "b"), shape(nil, 'd'),
		shape(func(r *core.Relation) { r.Schema = "x" }, 'd', "id*", "a"),
		shape(func(r *core.Relation) { r.Name = "x" }, 'd', "id*", "a"),
		shape(func(r *core.Relation) { r.OID++ }, 'd', "id*", "a"),
		shape(func(r *core.Relation) { r.Columns[0].TypeOID++ }, 'd', "id*", "a"),
		shape(func(r *core.Relation) { r.Columns[0].TypeModifier++ }, 'd', "id*", "a"),
		shape(func(r *core.Relation) { r.Columns[0].TypeName = "told" }, 'd', "id*", "a"),
		shape(func(r *core.Relation) { r.Columns[0].PrimaryKeyPosition = 1 }, 'd', "id*", "a"),
	}
	for i, x := range shapes {
		for j, y := range shapes {
			require.Equal(t, x.ShapeHash() == y.ShapeHash(), sameShape(x, y), "%d and %d", i, j)
		}
	}
}

// Under a published root Postgres describes each leaf, but no row names one: what the
// sink never saw cannot change under it.
func TestRelationThatNoRowNamedDoesNotChange(t *testing.T) {
	a := New(Options{})
	step := push(t, a, begin(100), table(tOID, 'd', "id*", "a"), table(tOID, 'd', "id*"))
	require.Equal(t, StepNone, step)
	push(t, a, insert(tOID, "1"))
	require.Equal(t, StepSchemaChange, push(t, a, table(tOID, 'd', "id*", "b")))
	require.Equal(t, []string{"b"}, a.SchemaChange().Added)
	// From here on it was told, even if no row has the new shape.
	require.Equal(t, StepSchemaChange, push(t, a, table(tOID, 'd', "id*")))
	require.Equal(t, columnsDropped, a.SchemaChange().What)
}

func TestShapeOfTheirTime(t *testing.T) {
	a := New(Options{})
	one, two := table(tOID, 'd', "id*"), table(tOID, 'd', "id*", "a")
	push(t, a, begin(100), one, insert(tOID, "1"), two, insert(tOID, "2x"), commit(100))
	tx, _ := a.Take()
	require.Same(t, one.Relation, tx.Changes[0].Relation)
	require.Same(t, two.Relation, tx.Changes[1].Relation)
}

func TestTypeNamesAndAnnotate(t *testing.T) {
	annotated := 0
	a := New(Options{Annotate: func(r *core.Relation) {
		annotated++
		require.Equal(t, "other.mood", r.Columns[0].TypeName, "the stream's names are there first")
		require.Empty(t, r.Columns[1].TypeName, "a domain came under its base type's name")
		r.Columns[1].TypeName = "posint"
		r.Columns[0].PrimaryKeyPosition = 1
	}})
	described := func() pgoutput.Message {
		m := table(tOID, 'd', "m*", "p", "twin", "copy", "a")
		for i, oid := range []uint32{20001, 20002, 20003, 20004, 25} {
			m.Relation.Columns[i].TypeOID = oid
		}
		return m
	}
	push(t, a,
		typeOf(20001, "public", "mood"), typeOf(20001, "other", "mood"), // renamed since
		typeOf(20002, "", "int4"),                                          // a domain
		typeOf(20003, "public", "color"), typeOf(20004, "public", "color"), // one is a domain of the other
		begin(100), described(), insert(tOID, "12345"), described(), insert(tOID, "12345"))
	tx, _ := a.Open()
	r := tx.Changes[0].Relation
	require.Same(t, r, tx.Changes[1].Relation)
	require.Equal(t, 1, annotated, "an equal description is not asked about again")
	names := []string{}
	for _, c := range r.Columns {
		names = append(names, c.TypeName)
	}
	require.Equal(t, []string{"other.mood", "posint", "", "", ""}, names)
	require.EqualValues(t, 1, r.Columns[0].PrimaryKeyPosition)
	require.Equal(t, r.EncodedMax(), a.RelationsSize())
}
