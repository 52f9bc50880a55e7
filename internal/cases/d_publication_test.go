package cases_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// warns waits until the status tells a change of what is published.
func (r *road) warns(what string) {
	r.Helper()
	r.status("it says: "+what, func(st pipeline.Status) bool { return strings.Contains(st.Published.Warning, what) })
}

// knows waits until the publication was looked at for the first time.
func (r *road) knows() {
	r.Helper()
	r.status("it knows what is published", func(st pipeline.Status) bool { return st.Published.Tables > 0 })
}

func TestD07TableMadeAnew(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d07(id int primary key, a int)", "create publication one for table d07, mark")
		all := s.road(way{adjust: looksOften})
		named := s.road(way{adjust: looksOften, publications: []string{"one"}})
		all.knows()
		named.knows()
		s.sql("insert into d07 values (1,1)")
		s.mark()
		s.sql("drop table d07", "create table d07(id bigint primary key, z text)", "insert into d07 values (1,'fresh')")
		s.mark()
		require.Equal(s, []string{"insert d07 new{id=<1> a=<1>}", commit, "insert d07 new{id=<1> z=<fresh>}", commit}, all.shown())
		require.NotEqual(s, all.relation(0, 0).OID, all.relation(1, 0).OID)
		require.Len(s, named.transactions(), 1, "Postgres has dropped it from the publication")
		all.warns(`"public"."d07" is another table now`)
		named.warns(`"public"."d07" is no longer published`)
		s.done()
	})
}

func TestD09TableAddedLater(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table d09(id int primary key)", "insert into d09 select generate_series(1,1000)", "create publication few for table mark")
		r := s.road(way{adjust: looksOften, publications: []string{"few"}})
		r.knows()
		s.sql("alter publication few add table d09", "insert into d09 values (2000)", "delete from d09 where id=5")
		s.mark()
		require.Equal(s, []string{"insert d09 new{id=<2000>}", commit, "delete d09 key{id=<5>}", commit}, r.shown())
		r.warns(`"public"."d09" is published now: rows that it held before do not reach the sink`)
		r.drain()
	})
}

func TestD11PublicationAfterTheSlot(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table d11(id int primary key)")
		slot := "case_d11_" + s.db.Name[:8]
		s.sql("select pg_create_logical_replication_slot("+literal(slot)+",'pgoutput')", "insert into d11 values (1)")
		r := s.road(way{slot: slot, publications: []string{"late"}, waits: true, adjust: func(o *pipeline.Options) { o.AdoptSlot = true }})
		r.halts(core.HaltPublicationMissing)
		s.sql("create publication late for table d11")
		for range 2 {
			at := r.confirmed()
			r.begin()
			halt := r.halts(core.HaltPublicationMissing)
			require.Contains(s, halt.Error(), "at stream")
			require.Equal(s, at, r.confirmed(), "what lies before the publication is not skipped")
			require.Empty(s, r.sink.Transactions())
		}
	})
}

func TestD11PublicationMadeAnew(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d11(id int primary key)")
		r := s.road(way{})
		s.sql("insert into d11 values (1)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		r.drain()
		s.sql("drop publication p", "insert into d11 values (2)", "create publication p for table d11")
		at := r.confirmed()
		r.waits = true
		r.begin()
		r.halts(core.HaltPublicationMissing)
		require.Len(s, r.transactions(), 1)
		require.Equal(s, at, r.confirmed())
	})
}

// Nothing is altered at the source, at any start, and nobody's lock is waited for.
func TestD12NoDDL(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d12(id int primary key)", "create table ddl(tag text)",
			"create function note_ddl() returns event_trigger language plpgsql as $$ begin insert into public.ddl values (tg_tag); end $$",
			"create event trigger note_ddl on ddl_command_start execute function note_ddl()")
		holder := s.session("postgres", pinned)
		r := s.road(way{})
		holder.sql("begin", "lock table d12, mark, ddl in access exclusive mode")
		for range 4 {
			r.drain()
			r.released()
			r.begin()
		}
		holder.sql("rollback")
		s.sql("insert into d12 values (1)")
		s.mark()
		require.Equal(s, []string{"insert d12 new{id=<1>}", commit}, r.shown())
		require.Equal(s, "0", s.app.one("select count(*) from ddl"))
		s.sql("alter table d12 add x int")
		require.Equal(s, "1", s.app.one("select count(*) from ddl"), "the trigger works")
		r.drain()
		s.sql("drop event trigger note_ddl")
	})
}

func TestD14Partitions(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table d14(id int, k int, v text, primary key(id,k)) partition by range(k)",
			"create table d14a partition of d14 for values from (0) to (10)",
			"create publication root for table d14, mark with (publish_via_partition_root=true)")
		r := s.road(way{adjust: looksOften, publications: []string{"root"}})
		r.knows()
		s.sql("insert into d14 values (1,1,'a')", "create table d14b(id int, k int, v text, primary key(id,k))", "insert into d14b values (9,15,'old')",
			"alter table d14 attach partition d14b for values from (10) to (20)")
		r.warns(`"public"."d14b" is published now: rows that it held before do not reach the sink`)
		s.sql("insert into d14 values (2,16,'new')", "update d14 set k=17 where id=1", "insert into d14 values (3,3,'c')", "truncate d14a")
		s.mark()
		want := []string{
			"insert d14 new{id=<1> k=<1> v=<a>}", commit, "insert d14 new{id=<2> k=<16> v=<new>}", commit,
			"delete d14 key{id=<1> k=<1> v=absent}", "insert d14 new{id=<1> k=<17> v=<a>}", commit, "insert d14 new{id=<3> k=<3> v=<c>}", commit,
		}
		if s.major == 14 { // it goes on with what it knew of the table before ATTACH
			want = []string{
				"insert d14 new{id=<1> k=<1> v=<a>}", commit,
				"delete d14 key{id=<1> k=<1> v=absent}", commit, "insert d14 new{id=<3> k=<3> v=<c>}", commit,
			}
		}
		require.Equal(s, want, r.shown(), "nothing of the leaf's TRUNCATE, of ATTACH and of what it brought")
		s.sql("alter table d14 detach partition d14b")
		r.warns(`"public"."d14b" is no longer published`)
		r.drain()
		require.NoError(s, inOrder(r.sink.Transactions(), r.sink.Units()))
	})
}

func TestD16NoEventsForViewsAndRewrites(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d16(id int primary key, t text)", "insert into d16 select i, 'x' from generate_series(1,500) i")
		r := s.road(way{})
		s.road(way{streaming: true})
		s.sql("create materialized view mv as select * from d16", "create unlogged table u(i int)", "insert into u values (1)",
			"create temp table tt(i int)", "insert into tt values (1)", "vacuum full d16")
		s.sql("do $$ begin for i in 1..5 loop refresh materialized view mv; commit; end loop; end $$")
		written := s.app.lsn("select pg_current_wal_lsn()")
		s.filler()
		for _, r := range s.roads {
			r.until("the slot follows", func() bool { return r.confirmed() >= written })
			require.Empty(s, r.sink.Transactions())
		}
		s.sql("insert into d16 values (0,'y')")
		s.mark()
		require.Equal(s, []string{"insert d16 new{id=<0> t=<y>}", commit}, r.shown())
	})
}

// The stream's side: what a row filter or a column list hides is not delivered, and a row
// that enters or leaves the filter is an insert or a delete.
func TestD18FilterAndColumnList(t *testing.T) {
	eachFrom(t, 15, func(s *scene) {
		s.sql("create table d18(id int primary key, st text, secret text)", "create table d18l(id int primary key, st text, secret text)",
			"alter table d18 replica identity full", "create publication pf for table d18 where (st='live'), mark",
			"create publication pl for table d18l (id, st), mark")
		roads := map[string][]string{
			"pf": {
				"insert d18 new{id=<2> st=<live> secret=<s>}", commit,
				"insert d18 new{id=<1> st=<live> secret=<s>}", commit,
				"update d18 full{id=<1> st=<live> secret=<s>} new{id=<1> st=<live> secret=<t>}", commit,
				"delete d18 full{id=<2> st=<live> secret=<s>}", commit,
			},
			"pl": {
				"insert d18l new{id=<1> st=<draft>}", "insert d18l new{id=<2> st=<live>}", commit,
				"update d18l new{id=<1> st=<live>}", commit,
				"update d18l new{id=<1> st=<live>}", commit,
				"update d18l new{id=<2> st=<dead>}", commit,
			},
		}
		for name := range roads {
			s.road(way{publications: []string{name}})
			s.road(way{publications: []string{name}, streaming: true})
		}
		for _, table := range []string{"d18", "d18l"} {
			s.sql("insert into "+table+" values (1,'draft','s'),(2,'live','s')", "update "+table+" set st='live' where id=1",
				"update "+table+" set secret='t' where id=1", "update "+table+" set st='dead' where id=2")
		}
		s.mark()
		for _, r := range s.roads {
			require.Equal(s, roads[r.publications[0]], r.shown())
			r.drain()
			require.NoError(s, inOrder(r.sink.Transactions(), r.sink.Units()))
		}
	})
}

// A list that leaves the key out breaks the application's own update. Nobody here makes
// such a publication; of one that is there the insert is delivered as it is.
func TestD19ListWithoutTheKey(t *testing.T) {
	eachFrom(t, 15, func(s *scene) {
		s.sql("create table d19(id int primary key, v text)", "create publication pc for table d19 (v)", "drop publication p",
			"create publication marks for table mark")
		r := s.road(way{publications: []string{"pc", "marks"}})
		s.sql("insert into d19 values (1,'q')")
		_, err := s.app.try("update d19 set v='z'")
		require.ErrorContains(s, err, "42P10")
		s.mark()
		require.Equal(s, []string{"insert d19 new{v=<q>}", commit}, r.shown())
		for _, c := range r.relation(0, 0).Columns {
			require.False(s, c.Identity, "no column says that it is a key")
		}
		r.drain()
	})
}
