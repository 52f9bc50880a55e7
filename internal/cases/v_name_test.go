package cases_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

func TestV28NamesThatNeedQuotes(t *testing.T) {
	deliver(t, given{
		setup: []string{
			`create schema "My-Schema"`,
			`create table "My-Schema"."Order ""x"""("Id" int primary key, "select" text, "a b" int, "é" int)`,
		},
		run: []string{
			`insert into "My-Schema"."Order ""x""" values (1,'s',2,3)`,
			`update "My-Schema"."Order ""x""" set "a b"=9`,
			`update "My-Schema"."Order ""x""" set "Id"=2`,
		},
		want: []string{
			`insert My-Schema/Order "x" new{Id=<1> select=<s> a b=<2> é=<3>}`, commit,
			`update My-Schema/Order "x" new{Id=<1> select=<s> a b=<9> é=<3>}`, commit,
			`update My-Schema/Order "x" key{Id=<1> select=absent a b=absent é=absent} new{Id=<2> select=<s> a b=<9> é=<3>}`, commit,
		},
		also: func(r *road) {
			require.Equal(r, "My-Schema", r.relation(0, 0).Schema)
			require.Equal(r, `Order "x"`, r.relation(0, 0).Name)
			require.EqualValues(r, 1, r.relation(0, 0).Columns[0].PrimaryKeyPosition)
		},
	})
}

func TestV30LongNames(t *testing.T) {
	each(t, func(s *scene) {
		// Two names of 80 characters would be one once they are cut.
		for _, name := range []string{
			"Prod-EU.orders", "prod_eu.orders", "Prod", "é", "", strings.Repeat("a", 64), strings.Repeat("a", 79) + "1",
			strings.Repeat("a", 79) + "2",
		} {
			_, err := pipeline.New(pipeline.Options{
				Source: wal.Options{DSN: s.db.DSN, Slot: name, Publications: []string{"p"}}, Sink: sinktest.NewMemory(), GoForwardOnly: true,
			})
			halt, ok := core.AsHalt(err)
			require.True(s, ok, "slot name %q was not refused", name)
			require.Equal(s, core.HaltInvalidIdentifier, halt.Code)
			text, known := core.Explain(halt.Code)
			require.True(s, known)
			require.Contains(s, text.Happened, "[a-z0-9_]{1,63}")
		}
		require.Equal(s, "0", s.app.one("select count(*) from pg_replication_slots where database=current_database()"))

		table := strings.Repeat("ą", 31) + "x" // 63 bytes
		longest := fmt.Sprintf("long_%d_%s", os.Getpid(), s.db.Name)
		longest += strings.Repeat("x", 63-len(longest))
		s.sql("create table " + quoted(table) + "(id int primary key)")
		s.road(way{slot: longest})
		s.run(given{
			run:  []string{"insert into " + quoted(table) + " values (1)"},
			want: []string{"insert " + table + " new{id=<1>}", commit},
		})
	})
}

func TestV31DotsInNames(t *testing.T) {
	deliver(t, given{
		setup: []string{
			`create schema "a.b"`, `create table "a.b"."c.d"(id int primary key)`,
			"create schema a", `create table a."b.c.d"(id int primary key)`,
		},
		run:  []string{`insert into "a.b"."c.d" values (1)`, `insert into a."b.c.d" values (2)`},
		want: []string{"insert a.b/c.d new{id=<1>}", commit, "insert a/b.c.d new{id=<2>}", commit},
		also: func(r *road) {
			require.NotEqual(r, r.relation(0, 0).OID, r.relation(1, 0).OID)
			require.NotEqual(r, r.relation(0, 0).ShapeHash(), r.relation(1, 0).ShapeHash())
		},
	})
}

func TestV32PublicationNames(t *testing.T) {
	each(t, func(s *scene) {
		// The list of names has quoting rules of its own; a comma in a name must not split it.
		odd := `we"ird, 'Pub'`
		s.sql("create table v32(id int primary key)", "create table other(id int primary key)", "drop publication p",
			`create publication "MyPub-1" for table v32`, "create publication "+quoted(odd)+" for table mark",
			"create publication mypub for table other")
		s.road(way{publications: []string{"MyPub-1", odd}})
		s.run(given{
			run:  []string{"insert into v32 values (1)", "insert into other values (1)"},
			want: []string{"insert v32 new{id=<1>}", commit},
		})
		folded := s.road(way{publications: []string{"mypub-1"}, route: inProcess, waits: true})
		require.Contains(s, folded.halts(core.HaltPublicationMissing).Error(), "mypub-1")
		require.Equal(s, "1", s.app.one("select count(*) from pg_replication_slots where database=current_database()"),
			"the missing publication was found before a slot was made")
	})
}

func TestV33EqualNamesInTwoSchemas(t *testing.T) {
	deliver(t, given{
		setup: []string{
			"create schema s2", `create table public.v33(id int primary key, "Name" text, name text)`,
			"create table s2.v33(id int primary key, other int)",
		},
		run: []string{
			"insert into public.v33 values (1,'A','b')", "insert into s2.v33 values (1,7)", "update public.v33 set name='c'",
			"begin; update s2.v33 set other=8; update public.v33 set name='d'; update s2.v33 set id=2; commit",
		},
		want: []string{
			"insert v33 new{id=<1> Name=<A> name=<b>}", commit,
			"insert s2/v33 new{id=<1> other=<7>}", commit,
			"update v33 new{id=<1> Name=<A> name=<c>}", commit,
			"update s2/v33 new{id=<1> other=<8>}", "update v33 new{id=<1> Name=<A> name=<d>}",
			"update s2/v33 key{id=<1> other=absent} new{id=<2> other=<8>}", commit,
		},
	})
}
