package cases_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestV08ArrayElements(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v08(id int primary key, t text[], i int[])"},
		run: []string{
			`insert into v08 values (1, array[null,'NULL','null','','a\b','q"q','a,b','{}',' sp '], '{1,NULL,3}'),
 (2,'{}','{}'), (3,null,null)`,
		},
		want: []string{
			`insert v08 new{id=<1> t=<{NULL,"NULL","null","","a\\b","q\"q","a,b","{}"," sp "}> i=<{1,NULL,3}>}`,
			`insert v08 new{id=<2> t=<{}> i=<{}>}`,
			`insert v08 new{id=<3> t=null i=null}`,
			commit,
		},
	})
}

func TestV10EnumLabels(t *testing.T) {
	deliver(t, given{
		setup: []string{
			`create type mood as enum ('sad','ok','it''s "x", y')`,
			"create table v10(id int primary key, m mood, ms mood[])",
		},
		run: []string{`insert into v10 values (1,'it''s "x", y','{sad,"it''s \"x\", y"}'),(2,null,'{}')`},
		want: []string{
			`insert v10 new{id=<1> m=<it's "x", y> ms=<{sad,"it's \"x\", y"}>}`,
			`insert v10 new{id=<2> m=null ms=<{}>}`,
			commit,
		},
		also: func(r *road) {
			require.Equal(r, "public.mood", r.relation(0, 0).Columns[1].TypeName)
			require.Equal(r, "public.mood[]", r.relation(0, 0).Columns[2].TypeName)
			require.Equal(r, r.relation(0, 0).Columns[1].TypeOID, r.relation(0, 0).Columns[2].ElementTypeOID)
		},
	})
}

func TestV11EnumChangedWhileStreaming(t *testing.T) {
	deliver(t, given{
		run: []string{
			"create type md as enum ('a')", "create table v11(id int primary key, m md)", "insert into v11 values (1,'a')",
			"alter type md add value 'b'", "insert into v11 values (2,'b')",
			"alter type md rename value 'a' to 'aa'", "update v11 set id=3 where id=1",
			"drop table v11", "drop type md", "create type md as enum ('z')",
			"create table v11(id int primary key, m md)", "insert into v11 values (9,'z')",
		},
		want: []string{
			"insert v11 new{id=<1> m=<a>}", commit,
			"insert v11 new{id=<2> m=<b>}", commit,
			"update v11 key{id=<1> m=absent} new{id=<3> m=<aa>}", commit,
			"insert v11 new{id=<9> m=<z>}", commit,
		},
		// On 14 the statements that only touch the catalog come as empty transactions, which
		// are no transactions for the sink.
		also: func(r *road) {
			first, last := r.relation(0, 0), r.relation(3, 0)
			require.Equal(r, first.OID, r.relation(2, 0).OID)
			require.NotEqual(r, first.OID, last.OID)
			require.NotEqual(r, first.Columns[1].TypeOID, last.Columns[1].TypeOID)
		},
	})
}

func TestV13Composites(t *testing.T) {
	deliver(t, given{
		setup: []string{
			"create type addr as (street text, zip int, tags text[])",
			"create table v13(id int primary key, a addr, aa addr[])",
		},
		run: []string{
			`insert into v13 values (1, row('1 "Main", St',null,array['a','b c']), null), (2,null,'{}'),
 (3,row(null,null,null),array[row('x',1,'{}')::addr])`,
		},
		want: []string{
			`insert v13 new{id=<1> a=<("1 ""Main"", St",,"{a,""b c""}")> aa=null}`,
			`insert v13 new{id=<2> a=null aa=<{}>}`,
			`insert v13 new{id=<3> a=<(,,)> aa=<{"(x,1,{})"}>}`,
			commit,
		},
	})
}

func TestV14Ranges(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v14(id int primary key, a tstzrange, b int4range, c int4multirange, d daterange)"},
		run: []string{
			`insert into v14 values (1,'empty','[1,5]','{}','(,)'),
 (2,'[2020-01-01 00:00+00,)','(,)','{[1,3),[5,7)}','[2020-01-01,2020-01-31]'),
 (3,'(,"2020-01-01 00:00:00+00"]',null,null,null)`,
		},
		want: []string{
			`insert v14 new{id=<1> a=<empty> b=<[1,6)> c=<{}> d=<(,)>}`,
			`insert v14 new{id=<2> a=<["2020-01-01 00:00:00+00",)> b=<(,)> c=<{[1,3),[5,7)}> d=<[2020-01-01,2020-02-01)>}`,
			`insert v14 new{id=<3> a=<(,"2020-01-01 00:00:00+00"]> b=null c=null d=null}`,
			commit,
		},
	})
}

func TestV19UUIDsOutOfLine(t *testing.T) {
	const id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
	deliver(t, given{
		setup: []string{
			"create table v19(id uuid primary key, u uuid[], n int)",
			"alter table v19 alter u set storage external",
		},
		run: []string{
			`insert into v19 select 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', array_agg(md5(i::text)::uuid order by i), 0
 from generate_series(1,500) i`,
			"update v19 set n=1",
		},
		want: []string{
			"insert v19 new{id=<" + id + "> u=<{c4ca423.. 18501> n=<0>}", commit,
			"update v19 new{id=<" + id + "> u=unchanged n=<1>}", commit,
		},
		also: func(r *road) {
			require.Contains(r, r.text(0, 0, "u"), "{c4ca4238-a0b9-2382-0dcc-509a6f75849b,c81e728d-9d4c-2f63-6f06-7f89cc14862c,")
		},
	})
}

func TestV36UnsignedNumbers(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v36(id int primary key, o oid, l pg_lsn, x xid8)"},
		run:   []string{"insert into v36 values (1,4294967295,'FFFFFFFF/FFFFFFFF','18446744073709551615')"},
		want: []string{
			"insert v36 new{id=<1> o=<4294967295> l=<FFFFFFFF/FFFFFFFF> x=<18446744073709551615>}", commit,
		},
	})
}
