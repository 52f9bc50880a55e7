package cases_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// shapes is a sink that takes schema changes and notes them among the transactions.
type shapes struct {
	*sinktest.Memory
	mu   sync.Mutex
	told []string // "columns_added t +b", with the number of transactions before it
}

func (n *shapes) HandleSchemaChange(ctx context.Context, u *core.SchemaChangeUnit) error {
	if err := n.Memory.HandleSchemaChange(ctx, u); err != nil {
		return err
	}
	c := &u.Change
	line := fmt.Sprintf("%d: %s %s", len(n.Transactions()), c.What, nameOf(c.After))
	for sign, names := range map[string][]string{"+": c.Added, "-": c.Dropped, "~": c.Retyped} {
		if len(names) > 0 {
			line += " " + sign + strings.Join(names, sign)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, line)
	return nil
}

// shapeRoads are one that takes schema changes, one that does not, and one with streaming
// that does.
func (s *scene) shapeRoads() (takes []*shapes) {
	s.Helper()
	for _, w := range []way{{schemaChanges: true}, {schemaChanges: true, streaming: true}} {
		n := &shapes{}
		w.wrap = func(m *sinktest.Memory) core.Sink {
			n.Memory = m
			return n
		}
		s.road(w)
		takes = append(takes, n)
	}
	return takes
}

func TestD01ColumnAdded(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d01(id int primary key, a text)")
		takes := s.shapeRoads()
		s.road(way{route: inProcess, role: s.hostile(hostileSettings...)})
		s.sql("insert into d01 values (1,'x')", `begin; insert into d01 values (2,'y'); alter table d01 add column b text default 'dd';
 insert into d01(id) values (3); update d01 set a='z' where id=1; commit`)
		s.mark()
		for _, r := range s.roads {
			require.Equal(s, []string{
				"insert d01 new{id=<1> a=<x>}", commit,
				"insert d01 new{id=<2> a=<y>}", "insert d01 new{id=<3> a=null b=<dd>}", "update d01 new{id=<1> a=<z> b=<dd>}", commit,
			}, r.shown())
			r.drain()
			require.NoError(s, inOrder(r.sink.Transactions(), r.sink.Units()))
		}
		for _, n := range takes {
			require.Equal(s, []string{"1: columns_added d01 +b"}, n.told)
		}
	})
}

func TestD02ColumnDropped(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d02(id int primary key, a int, b text, c int)")
		takes := s.shapeRoads()
		refuses := s.road(way{route: inProcess, resumes: true})
		s.sql("insert into d02 values (1,1,'x',3)")
		s.mark()
		s.sql("begin; alter table d02 drop column a; insert into d02 values (2,'y',4); alter table d02 add column a text; insert into d02 values (3,'z',5,'new'); commit")
		halt := refuses.halts(core.HaltSchemaDestructive)
		require.Contains(s, halt.Error(), "d02")
		require.Len(s, refuses.transactions(), 1)
		refuses.waits = true
		refuses.begin()
		refuses.halts(core.HaltSchemaDestructive)
		refuses.adjust = func(o *pipeline.Options) { o.AcceptSchemaChange = true }
		refuses.begin()
		s.mark()
		for _, r := range s.roads {
			require.Equal(s, []string{
				"insert d02 new{id=<1> a=<1> b=<x> c=<3>}", commit,
				"insert d02 new{id=<2> b=<y> c=<4>}", "insert d02 new{id=<3> b=<z> c=<5> a=<new>}", commit,
			}, r.shown())
			columns := r.relation(1, 1).Columns
			require.EqualValues(s, 25, columns[3].TypeOID, "a is text now")
			r.drain()
		}
		for _, n := range takes {
			require.Equal(s, []string{"2: columns_dropped d02 -a", "2: columns_added d02 +a"}, n.told)
		}
	})
}

func TestD04ChangedBeforeTheFirstRow(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d04(id int primary key)")
		takes := s.shapeRoads()
		s.sql("alter table d04 add column x int", "alter table d04 add column y text", "alter table d04 drop column x")
		s.run(given{
			run:  []string{"insert into d04 values (1,'a')"},
			want: []string{"insert d04 new{id=<1> y=<a>}", commit},
			also: func(r *road) {
				var names []string
				for _, c := range r.relation(0, 0).Columns {
					names = append(names, c.Name)
				}
				require.Equal(r, []string{"id", "y"}, names, "what the sink is told is what it gets")
			},
		})
		for _, n := range takes {
			require.Empty(s, n.told, "the first sight is no change")
		}
	})
}

func TestD05ColumnRenamed(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table d05(id int primary key, a int, b int)")
		takes := s.shapeRoads()
		refuses := s.road(way{route: inProcess})
		s.sql("insert into d05 values (1,1,1)")
		s.mark()
		s.sql(`begin; alter table d05 rename a to a2; insert into d05 values (2,2,2); alter table d05 rename a2 to b2;
 alter table d05 rename b to a; insert into d05 values (3,3,3); commit`)
		refuses.halts(core.HaltSchemaDestructive)
		s.roads = s.roads[:2]
		s.mark()
		for _, r := range s.roads {
			require.Equal(s, []string{
				"insert d05 new{id=<1> a=<1> b=<1>}", commit,
				"insert d05 new{id=<2> a2=<2> b=<2>}", "insert d05 new{id=<3> b2=<3> a=<3>}", commit,
			}, r.shown())
			require.Equal(s, r.relation(0, 0).OID, r.relation(1, 1).OID)
			r.drain()
		}
		for _, n := range takes {
			require.Len(s, n.told, 2)
			require.Regexp(s, `^2: columns_changed d05 (\+a2 -a|-a \+a2)$`, n.told[0])
			require.Regexp(s, `^2: columns_changed d05 (\+b2\+a -a2-b|-a2-b \+b2\+a)$`, n.told[1])
		}
	})
}

func TestD13GeneratedColumns(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table d13(id int primary key, x int, y int generated always as (x*2) stored)",
			"create publication plain for table d13, mark")
		roads := []*road{s.road(way{publications: []string{"plain"}})}
		if s.major >= 18 {
			s.sql("create table d13v(id int primary key, x int, y int generated always as (x*2) stored, v int generated always as (x+1) virtual)",
				"create publication stored_too for table d13v, mark with (publish_generated_columns=stored)")
			roads = append(roads, s.road(way{publications: []string{"stored_too"}}))
			s.sql("insert into d13v(id,x) values (1,2)", "update d13v set x=3")
		}
		s.sql("insert into d13(id,x) values (1,2)", "update d13 set x=3")
		s.mark()
		require.Equal(s, []string{"insert d13 new{id=<1> x=<2>}", commit, "update d13 new{id=<1> x=<3>}", commit}, roads[0].shown())
		if s.major >= 18 {
			require.Equal(s, []string{"insert d13v new{id=<1> x=<2> y=<4>}", commit, "update d13v new{id=<1> x=<3> y=<6>}", commit}, roads[1].shown())
		}
		for _, r := range roads {
			r.drain()
			require.NoError(s, inOrder(r.sink.Transactions(), r.sink.Units()))
		}
	})
}
