package cases_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func TestT06IdentityIndex(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table t06(id int, code text not null, big text, n int, constraint u unique(code))",
			"alter table t06 replica identity using index u")
		s.road(way{})
		s.road(way{route: inProcess, role: s.hostile(hostileSettings...)})
		s.sql("insert into t06 values (1,'a','z',1)", "update t06 set n=2", "update t06 set code='b'", "delete from t06")
		s.mark()
		want := []string{
			"insert t06 new{id=<1> code=<a> big=<z> n=<1>}", commit,
			"update t06 new{id=<1> code=<a> big=<z> n=<2>}", commit,
			"update t06 key{id=absent code=<a> big=absent n=absent} new{id=<1> code=<b> big=<z> n=<2>}", commit,
			"delete t06 key{id=absent code=<b> big=absent n=absent}", commit,
		}
		for _, r := range s.roads {
			require.Equal(s, want, r.shown())
			require.Equal(s, core.IdentityIndex, r.relation(0, 0).Identity)
			r.audit()
		}
		// The index goes, and with it what says which row is meant. A sink that takes schema
		// changes is told before the next row; for any other the sidecar halts at this border,
		// and nothing behind it is delivered or confirmed.
		s.sql("alter table t06 drop constraint u", "insert into t06 values (2,'c','z',1)")
		told, deaf := s.roads[0], s.roads[1]
		halt := deaf.halts(core.HaltSchemaDestructive)
		require.Equal(s, "public.t06", halt.Relation)
		require.Contains(s, halt.Detail, "identity_changed")
		require.Equal(s, want, deaf.shown())
		require.LessOrEqual(s, deaf.confirmed(), deaf.sink.Stored().Position)

		s.roads = []*road{told}
		s.mark()
		require.Equal(s, append(want, "insert t06 new{id=<2> code=<c> big=<z> n=<1>}", commit), told.shown())
		require.Equal(s, []string{"tx", "tx", "tx", "tx", "tx", "schema identity_changed", "tx", "tx"}, told.sink.Journal())
		for _, column := range told.relation(4, 0).Columns {
			require.False(s, column.Identity, "a column says that it is a key")
		}
		s.done()
	})
}

func TestT07NoKeyAtAll(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table t07(id int primary key, n int)", "alter table t07 replica identity nothing",
			"create table t07b(n int, t text)")
		s.road(way{})
		s.road(way{route: inProcess, role: s.hostile(hostileSettings...)})
		s.sql("insert into t07 values (1,1)", "insert into t07b values (1,'a'),(1,'a')")
		for _, refused := range []string{
			"update t07 set n=2", "delete from t07", "update t07b set n=2", "delete from t07b",
		} {
			_, err := s.app.try(refused)
			require.ErrorContains(s, err, "55000", refused)
		}
		s.sql("truncate t07")
		s.run(given{
			want: []string{
				"insert t07 new{id=<1> n=<1>}", commit, "insert t07b new{n=<1> t=<a>}", "insert t07b new{n=<1> t=<a>}", commit,
				"truncate t07", commit,
			},
			also: func(r *road) {
				require.Equal(r, core.IdentityNothing, r.relation(0, 0).Identity)
				require.Equal(r, core.IdentityDefault, r.relation(1, 0).Identity)
				for _, relation := range []*core.Relation{r.relation(0, 0), r.relation(1, 0)} {
					for _, column := range relation.Columns {
						require.False(r, column.Identity, "a column says that it is a key")
					}
				}
				require.EqualValues(r, 1, r.relation(0, 0).Columns[0].PrimaryKeyPosition, "the primary key is told all the same")
			},
		})
	})
}

func TestT08WritesOfTheApplicationGoOn(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table t08(i int)", "insert into t08 values (1)", "create table t08ours(id int primary key)")
		_, err := s.app.try("update t08 set i=2")
		require.ErrorContains(s, err, "55000", "the danger is there: with all tables published the application fails")
		s.sql("drop publication p", "create publication ours for table t08ours, mark")
		s.road(way{publications: []string{"ours"}})
		s.road(way{publications: []string{"ours"}, route: inProcess, role: s.hostile()})
		s.run(given{
			run:  []string{"update t08 set i=2", "insert into t08ours values (1)", "delete from t08"},
			want: []string{"insert t08ours new{id=<1>}", commit},
		})
		require.Equal(s, "ours", s.app.one("select string_agg(pubname, ',') from pg_publication"))
		require.Equal(s, "0", s.app.one("select count(*) from pg_class where relreplident <> 'd' and relnamespace='public'::regnamespace and relkind='r'"))
	})
}

func TestT09NothingIsCreatedOrAltered(t *testing.T) {
	each(t, func(s *scene) {
		role := s.hostile(hostileSettings...)
		s.sql("create table t09(id int primary key, v text)", "create table ddl(tag text, who text)",
			`create function note() returns event_trigger language plpgsql security definer as
 $$ begin insert into public.ddl values (tg_tag, session_user); end $$`,
			"create event trigger note on ddl_command_end execute function note()")
		s.road(way{role: role})
		s.road(way{role: role, route: inProcess})
		s.sql("insert into t09 values (1,'a')", "update t09 set v='b'", "update t09 set id=2",
			"create table control(id int primary key)")
		s.mark()
		require.Equal(s, "1", s.app.one("select count(*) from ddl where tag='CREATE TABLE' and who='postgres'"), "the trigger works")
		require.Equal(s, "0", s.app.one("select count(*) from ddl where who='"+hostileRole+"'"), "the sidecar sent DDL")
		require.Equal(s, "d", s.app.one("select relreplident from pg_class where relname='t09'"))
		_, err := s.session(role, nil).try("alter table t09 replica identity full")
		require.ErrorContains(s, err, "42501", "the role could not have done it either")
		for _, r := range s.roads {
			var rows []string
			for _, line := range r.shown() {
				if line != commit && line[:10] != "insert ddl" {
					rows = append(rows, line)
				}
			}
			require.Equal(s, []string{
				"insert t09 new{id=<1> v=<a>}", "update t09 new{id=<1> v=<b>}",
				"update t09 key{id=<1> v=absent} new{id=<2> v=<b>}",
			}, rows, "what the identity does not send is absent, and said to be")
		}
		s.done()
	})
}

func TestT11EqualRowsUnderFullIdentity(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table t11(a int, b text)", "alter table t11 replica identity full"},
		run: []string{
			"insert into t11 values (1,'x'),(1,'x'),(1,'x')",
			"delete from t11 where ctid=(select min(ctid) from t11)",
			"update t11 set b='y' where ctid=(select min(ctid) from t11)",
		},
		want: []string{
			"insert t11 new{a=<1> b=<x>}", "insert t11 new{a=<1> b=<x>}", "insert t11 new{a=<1> b=<x>}", commit,
			"delete t11 full{a=<1> b=<x>}", commit,
			"update t11 full{a=<1> b=<x>} new{a=<1> b=<y>}", commit,
		},
	})
}
