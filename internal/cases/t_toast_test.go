package cases_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestT01UnchangedValue(t *testing.T) {
	deliver(t, given{
		setup: []string{
			"create table t01(id int primary key, n int, big text, j jsonb)", "alter table t01 alter big set storage external",
		},
		run: []string{
			"insert into t01 values (1,1,repeat('x',9000),'{}')", "update t01 set n=2", "update t01 set big=null",
			"update t01 set big='__debezium_unavailable_value'",
		},
		want: []string{
			"insert t01 new{id=<1> n=<1> big=<xxxxxxxx.. 9000> j=<{}>}", commit,
			"update t01 new{id=<1> n=<2> big=unchanged j=<{}>}", commit,
			"update t01 new{id=<1> n=<2> big=null j=<{}>}", commit,
			"update t01 new{id=<1> n=<2> big=<__debezium_unavailable_value> j=<{}>}", commit,
		},
		also: func(r *road) { require.Equal(r, strings.Repeat("x", 9000), r.text(0, 0, "big")) },
	})
}

func TestT02FullIdentityFillsUnchanged(t *testing.T) {
	deliver(t, given{
		setup: []string{
			"create table t02(id int primary key, n int, big text)", "alter table t02 alter big set storage external",
			"alter table t02 replica identity full",
		},
		run: []string{
			"insert into t02 values (1,1,repeat('y',9000))", "update t02 set n=2", "update t02 set id=5", "delete from t02",
		},
		want: []string{
			"insert t02 new{id=<1> n=<1> big=<yyyyyyyy.. 9000>}", commit,
			"update t02 full{id=<1> n=<1> big=<yyyyyyyy.. 9000>} new{id=<1> n=<2> big=<yyyyyyyy.. 9000>}", commit,
			"update t02 full{id=<1> n=<2> big=<yyyyyyyy.. 9000>} new{id=<5> n=<2> big=<yyyyyyyy.. 9000>}", commit,
			"delete t02 full{id=<5> n=<2> big=<yyyyyyyy.. 9000>}", commit,
		},
		also: func(r *road) {
			require.Equal(r, strings.Repeat("y", 9000), r.text(1, 0, "big"))
			require.Equal(r, strings.Repeat("y", 9000), r.text(2, 0, "big"))
		},
	})
}

func TestT03KeyChangedBesideUnchanged(t *testing.T) {
	deliver(t, given{
		setup: []string{
			"create table t03(id int primary key, n int, big text)", "alter table t03 alter big set storage external",
		},
		run: []string{
			"insert into t03 values (1,1,repeat('x',9000))", "update t03 set id=10", "update t03 set id=11, n=2",
		},
		want: []string{
			"insert t03 new{id=<1> n=<1> big=<xxxxxxxx.. 9000>}", commit,
			"update t03 key{id=<1> n=absent big=absent} new{id=<10> n=<1> big=unchanged}", commit,
			"update t03 key{id=<10> n=absent big=absent} new{id=<11> n=<2> big=unchanged}", commit,
		},
	})
}

func TestT05UnchangedArrays(t *testing.T) {
	deliver(t, given{
		setup: []string{
			"create table t05(id int primary key, n int, a text[], b bool[], d date[], c bytea[])",
			"alter table t05 alter a set storage external, alter b set storage external, alter d set storage external, alter c set storage external",
		},
		run: []string{
			`insert into t05 select 1,0,array_agg(md5(i::text) order by i),array_agg(i%2=0 order by i),
 array_agg('2020-01-01'::date+i order by i),array_agg(decode(md5(i::text),'hex') order by i) from generate_series(1,3000) i`,
			"update t05 set n=1",
		},
		want: []string{
			"insert t05 new{id=<1> n=<0> a=<{c4ca423.. 99001> b=<{f,t,f,t.. 6001> d=<{2020-01.. 33001> c=<{\"\\\\xc4c.. 114001>}", commit,
			"update t05 new{id=<1> n=<1> a=unchanged b=unchanged d=unchanged c=unchanged}", commit,
		},
	})
}

// A key that is itself stored out of line and was not touched comes as unchanged in the
// new row; the key is in the old one.
func TestT03KeyStoredOutOfLine(t *testing.T) {
	key := strings.Repeat("k", 2500) // an index entry holds no more than about 2,700 bytes
	deliver(t, given{
		setup: []string{
			"create table t03k(id text primary key, n int, big text)",
			"alter table t03k alter id set storage external, alter big set storage external",
		},
		run: []string{
			"insert into t03k values ('" + key + "',1,repeat('x',9000))", "update t03k set n=2", "delete from t03k",
		},
		want: []string{
			"insert t03k new{id=<kkkkkkkk.. 2500> n=<1> big=<xxxxxxxx.. 9000>}", commit,
			"update t03k key{id=<kkkkkkkk.. 2500> n=absent big=absent} new{id=<kkkkkkkk.. 2500> n=<2> big=unchanged}", commit,
			"delete t03k key{id=<kkkkkkkk.. 2500> n=absent big=absent}", commit,
		},
	})
}

func TestT12OldKeyIsNoRow(t *testing.T) {
	deliver(t, given{
		setup: []string{
			"create table t12(a int, id int, big text, b text not null, primary key(b, id))",
			"alter table t12 alter big set storage external",
		},
		run: []string{
			"insert into t12 values (null,1,repeat('x',9000),'k')", "update t12 set id=2", "update t12 set b='l', a=3",
			"delete from t12",
		},
		want: []string{
			"insert t12 new{a=null id=<1> big=<xxxxxxxx.. 9000> b=<k>}", commit,
			"update t12 key{a=absent id=<1> big=absent b=<k>} new{a=null id=<2> big=unchanged b=<k>}", commit,
			"update t12 key{a=absent id=<2> big=absent b=<k>} new{a=<3> id=<2> big=unchanged b=<l>}", commit,
			"delete t12 key{a=absent id=<2> big=absent b=<l>}", commit,
		},
		also: func(r *road) {
			columns := r.relation(0, 0).Columns
			require.EqualValues(r, 2, columns[1].PrimaryKeyPosition)
			require.EqualValues(r, 1, columns[3].PrimaryKeyPosition)
			require.False(r, columns[0].Identity || columns[2].Identity)
		},
	})
}
