package cases_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// copiedRows is what the copy brought of a table, a line a row.
func (r *road) copiedRows(table string) []string {
	r.Helper()
	lines := []string{}
	for _, u := range r.sink.SnapshotUnits() {
		if u.Relation == nil || u.Relation.Name != table {
			continue
		}
		for _, tuple := range u.Rows {
			line := ""
			for i, v := range tuple.Values() {
				line += u.Relation.Columns[i].Name + "=" + string(rune(v.Kind)) + string(v.Text) + " "
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// A column that is added while the table is copied waits, and then is told as a change.
func TestD04AddedWhileCopied(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d04(id int primary key)", "insert into d04 select generate_series(1,50)")
		r, p := s.halfway("d04", way{limits: small, schemaChanges: true})
		other := s.session("postgres", nil)
		done := make(chan error, 1)
		go func() {
			_, err := other.try("begin; alter table d04 add x int default 7; insert into d04 values (51); commit")
			done <- err
		}()
		s.eventually("the change waits", func() bool {
			return s.app.one("select count(*) from pg_locks where not granted and mode='AccessExclusiveLock' and relation='d04'::regclass") == "1"
		})
		p.release()
		require.NoError(s, <-done)
		r.streams()
		s.mark()
		require.Equal(s, []string{"insert d04 new{id=<51> x=<7>}", commit}, r.shown())
		require.Contains(s, r.sink.Journal(), "schema columns_added", "the copied shape is what the stream's first one is compared with")
		require.Len(s, r.copiedRows("d04"), 50)
		r.drain()
	})
}

// The copy has the generated columns that the stream has, and no others.
func TestD13GeneratedColumnsCopied(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table d13(id int primary key, x int, y int generated always as (x*2) stored)", "insert into d13(id,x) values (1,2)",
			"create publication plain for table d13, mark")
		r := s.road(way{publications: []string{"plain"}, adjust: copying})
		s.sql("update d13 set x=3")
		s.mark()
		require.Equal(s, []string{"id=t1 x=t2 "}, r.copiedRows("d13"))
		require.Equal(s, []string{"update d13 new{id=<1> x=<3>}", commit}, r.shown())
		r.drain()
		if s.major < 18 {
			return
		}
		s.sql("alter publication plain set (publish_generated_columns=stored)", "alter table d13 add v int generated always as (x+1) virtual")
		r = s.road(way{publications: []string{"plain"}, adjust: copying})
		s.sql("update d13 set x=4")
		require.Equal(s, []string{"id=t1 x=t3 y=t6 "}, r.copiedRows("d13"))
		r.until("the update is there", func() bool { return len(r.shown()) == 2 })
		require.Equal(s, []string{"update d13 new{id=<1> x=<4> y=<8>}", commit}, r.shown())
	})
}

// Under its root's name a partitioned table is copied once, whatever leaves it has.
func TestD14PartitionsCopied(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table d14(id int, k int, v text, primary key(id,k)) partition by range(k)",
			"create table d14a partition of d14 for values from (0) to (10)", "create table d14b(v text, k int not null, id int not null)",
			"alter table d14 attach partition d14b for values from (10) to (20)", "insert into d14 values (1,1,'a'),(2,15,'b')",
			"create publication root for table d14, mark with (publish_via_partition_root=true)", "create publication leaves for table d14, mark")
		root := s.road(way{publications: []string{"root"}, adjust: copying})
		leaves := s.road(way{publications: []string{"leaves"}, adjust: copying})
		both := s.road(way{publications: []string{"leaves", "root"}, adjust: copying})
		s.sql("update d14 set k = 16 where id = 1")
		s.mark()
		for _, r := range []*road{root, both} {
			require.Equal(s, []string{"id=t1 k=t1 v=ta ", "id=t2 k=t15 v=tb "}, r.copiedRows("d14"))
			require.Empty(s, r.copiedRows("d14a"))
			require.Len(s, r.sink.Rows("public", "d14"), 2)
		}
		require.Equal(s, []string{"id=t1 k=t1 v=ta "}, leaves.copiedRows("d14a"))
		require.Equal(s, []string{"v=tb k=t15 id=t2 "}, leaves.copiedRows("d14b"))
		for _, r := range s.roads {
			r.drain()
		}
	})
}

// The copy has the rows and columns that the publication lets through.
func TestD18FilterAndColumnListCopied(t *testing.T) {
	eachFrom(t, 15, func(s *scene) {
		s.sql("create table d18(id int primary key, st text, secret text)", "alter table d18 replica identity full", "create table d18l(id int primary key, st text, secret text)",
			"insert into d18 values (1,'draft','s'),(2,'live','s')", "insert into d18l values (1,'draft','s')",
			"create publication pf for table d18 where (st='live'), mark", "create publication pl for table d18l (id, st), mark")
		r := s.road(way{publications: []string{"pf", "pl"}, adjust: copying})
		s.sql("update d18 set st='live' where id=1", "update d18 set st='dead' where id=2", "update d18l set secret='t'")
		s.mark()
		require.Equal(s, []string{"id=t2 st=tlive secret=ts "}, r.copiedRows("d18"))
		require.Equal(s, []string{"id=t1 st=tdraft "}, r.copiedRows("d18l"))
		require.Equal(s, []string{
			"insert d18 new{id=<1> st=<live> secret=<s>}", commit, "delete d18 full{id=<2> st=<live> secret=<s>}", commit, "update d18l new{id=<1> st=<draft>}", commit,
		}, r.shown())
		require.Len(s, r.sink.Rows("public", "d18"), 1)
		r.drain()
	})
}
