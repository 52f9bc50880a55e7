package cases_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestV07Bytes(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v07(id int primary key, b bytea)"},
		run: []string{
			`insert into v07 values (1,'\x005c27ff00'),(2,'\x'),(3,null),(4,decode(repeat('00ff',600000),'hex'))`,
		},
		want: []string{
			`insert v07 new{id=<1> b=<\x005c27ff00>}`,
			`insert v07 new{id=<2> b=<\x>}`,
			`insert v07 new{id=<3> b=null}`,
			`insert v07 new{id=<4> b=<\x00ff00.. 2400002>}`,
			commit,
		},
		also: func(r *road) {
			require.True(r, `\x`+strings.Repeat("00ff", 600000) == r.text(0, 3, "b"))
		},
	})
}

func TestV17NumbersInJSONB(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v17(id int primary key, j jsonb)"},
		run: []string{
			`insert into v17 values (1,'{"n":1234567890123456789,"d":123456789012345678901234567890.123456789,"e":1e400}'),
 (2,'1.10'),(3,'"s"'),(4,'null'),(5,null)`,
		},
		want: []string{
			`insert v17 new{id=<1> j=<{"d": 12.. 481>}`,
			`insert v17 new{id=<2> j=<1.10>}`,
			`insert v17 new{id=<3> j=<"s">}`,
			`insert v17 new{id=<4> j=<null>}`,
			`insert v17 new{id=<5> j=null}`,
			commit,
		},
		also: func(r *road) {
			require.Equal(r, `{"d": 123456789012345678901234567890.123456789, "e": 1`+strings.Repeat("0", 400)+
				`, "n": 1234567890123456789}`, r.text(0, 0, "j"))
		},
	})
}

func TestV18JSONAsWritten(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v18(id int primary key, t json)"},
		run: []string{
			`insert into v18 values (1,'{"b":1,  "a":"\u0000","a":2}'),(2,'[1, 2]'),(3,E'"\\ud83d\\ude00"')`,
		},
		want: []string{
			`insert v18 new{id=<1> t=<{"b":1,  "a":"\u0000","a":2}>}`,
			`insert v18 new{id=<2> t=<[1, 2]>}`,
			`insert v18 new{id=<3> t=<"\ud83d\ude00">}`,
			commit,
		},
	})
}

func TestV27PaddedChars(t *testing.T) {
	deliver(t, given{
		setup: []string{`create table v27(id char(5) primary key, b "char", c char(3))`},
		run: []string{
			"insert into v27 values ('ab','x','abc'),('     ',null,'')",
			"update v27 set c='z' where id='ab'",
			"delete from v27 where id='     '",
		},
		want: []string{
			"insert v27 new{id=<ab   > b=<x> c=<abc>}",
			"insert v27 new{id=<     > b=null c=<   >}", commit,
			"update v27 new{id=<ab   > b=<x> c=<z  >}", commit,
			"delete v27 key{id=<     > b=absent c=absent}", commit,
		},
	})
}

func TestV35NullAndEmpty(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v35(id int primary key, t text, n int, d date)"},
		run: []string{
			"insert into v35 values (1,null,null,null),(2,'',0,'2020-01-01')",
			"update v35 set t=null, n=null where id=2",
			"update v35 set t='' where id=1",
		},
		want: []string{
			"insert v35 new{id=<1> t=null n=null d=null}",
			"insert v35 new{id=<2> t=<> n=<0> d=<2020-01-01>}", commit,
			"update v35 new{id=<2> t=null n=null d=<2020-01-01>}", commit,
			"update v35 new{id=<1> t=<> n=null d=null}", commit,
		},
	})
}

func TestV37TextAsItIs(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v37(id int primary key, t text, v varchar(40))"},
		run: []string{
			`insert into v37 values (1,E'It''s ''q''',E'trail\\'),(2,E'a\tb\nc\r\\N','\N'),(3,'😀é',E'\u00a0')`,
		},
		want: []string{
			`insert v37 new{id=<1> t=<It's 'q'> v=<trail\>}`,
			"insert v37 new{id=<2> t=<a\tb\nc\r\\N> v=<\\N>}",
			"insert v37 new{id=<3> t=<\U0001F600\u00e9> v=<\u00a0>}",
			commit,
		},
	})
}
