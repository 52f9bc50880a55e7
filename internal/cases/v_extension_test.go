package cases_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestV15HstoreWithNull(t *testing.T) {
	deliver(t, given{
		setup: []string{"create extension hstore", "create table v15(id int primary key, h hstore)"},
		run:   []string{`insert into v15 values (1,'a=>1,b=>NULL,"c d"=>"\"x\""'),(2,''),(3,null)`},
		want: []string{
			`insert v15 new{id=<1> h=<"a"=>"1", "b"=>NULL, "c d"=>"\"x\"">}`,
			`insert v15 new{id=<2> h=<>}`,
			`insert v15 new{id=<3> h=null}`,
			commit,
		},
	})
}

func TestV16TextOfExtensions(t *testing.T) {
	deliver(t, given{
		setup: []string{
			"create extension citext", "create extension ltree",
			"create table v16(id int primary key, c citext, l ltree)",
		},
		run:  []string{"insert into v16 values (1,'MiXed','Top.Science')"},
		want: []string{"insert v16 new{id=<1> c=<MiXed> l=<Top.Science>}", commit},
		also: func(r *road) {
			for i, name := range []string{"integer", "public.citext", "public.ltree"} {
				require.Equal(r, name, r.relation(0, 0).Columns[i].TypeName)
			}
		},
	})
}

// baseType makes a type of its own that holds text, with a modifier: to us and to any
// driver as unknown as the type of an extension that is not installed here.
func baseType(name string) []string {
	return []string{
		"create type " + name,
		fmt.Sprintf("create function %[1]s_in(cstring) returns %[1]s language internal immutable strict as 'textin'", name),
		fmt.Sprintf("create function %[1]s_out(%[1]s) returns cstring language internal immutable strict as 'textout'", name),
		fmt.Sprintf("create function %[1]s_typmod(cstring[]) returns int4 language internal immutable strict as 'varchartypmodin'", name),
		fmt.Sprintf("create type %[1]s (input=%[1]s_in, output=%[1]s_out, typmod_in=%[1]s_typmod, like=text, storage=external)", name),
	}
}

// pgvector is not among the extensions that come with Postgres. Types of the same names
// stand in for its own, and contrib's cube for a type with an output function in C.
func TestV25Vectors(t *testing.T) {
	setup := []string{"create extension cube"}
	for _, name := range []string{"vector", "halfvec", "sparsevec"} {
		setup = append(setup, baseType(name)...)
	}
	deliver(t, given{
		setup: append(setup, "create table v25(id int primary key, v vector(3), h halfvec(2), s sparsevec(5), c cube)"),
		run: []string{
			"insert into v25 values (1,'[1,2.5,-3]','[0.1,0.2]','{}/5','(1,2.5,-3),(0.1,0.2,7)'),(2,null,null,'{1:0.5}/5',null)",
		},
		want: []string{
			"insert v25 new{id=<1> v=<[1,2.5,-3]> h=<[0.1,0.2]> s=<{}/5> c=<(1, 2.5, -3),(0.1, 0.2, 7)>}",
			"insert v25 new{id=<2> v=null h=null s=<{1:0.5}/5> c=null}",
			commit,
		},
		also: func(r *road) {
			columns := r.relation(0, 0).Columns
			require.Equal(r, "public.vector", columns[1].TypeName)
			require.EqualValues(r, 3+4, columns[1].TypeModifier)
			require.Equal(r, "public.cube", columns[4].TypeName)
		},
	})
}

// PostGIS is not among the extensions that come with Postgres; a type of that name
// stands in for its own.
func TestV26Geometry(t *testing.T) {
	const (
		one = "0101000020E6100000000000000000F03F0000000000000040"
		two = "0101000020E610000000000000000008400000000000001040"
	)
	deliver(t, given{
		setup: append(baseType("geometry"), "create table v26(id int primary key, n int, g geometry(4326))"),
		run: []string{
			"insert into v26 values (1,1,'" + one + "')", "update v26 set g='" + two + "'",
			"update v26 set g='" + strings.Repeat(two, 100) + "'", "update v26 set n=2",
		},
		want: []string{
			"insert v26 new{id=<1> n=<1> g=<" + one + ">}", commit,
			"update v26 new{id=<1> n=<1> g=<" + two + ">}", commit,
			"update v26 new{id=<1> n=<1> g=<01010000.. 5000>}", commit,
			"update v26 new{id=<1> n=<2> g=unchanged}", commit,
		},
	})
}
