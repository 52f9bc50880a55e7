package cases_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// spills makes the server put transactions together on disk, and the check that it did.
func (s *scene) spills() (check func(r *road)) {
	s.sql("alter database " + quoted(s.db.Name) + " set logical_decoding_work_mem='64kB'")
	return func(r *road) {
		r.until("the server counted what it spilled", func() bool {
			answer, err := r.watch.try("select 1 from pg_stat_replication_slots where spill_txns > 0 and slot_name=" + literal(r.slot))
			return err == nil && len(answer.rows) == 1
		})
	}
}

func TestX01SavepointRolledBack(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x01(id int primary key, t text)")
		spilled := s.spills()
		s.road(way{})
		s.road(way{route: inProcess, mode: pipeline.ModeTransaction})
		s.road(way{streaming: true})
		s.sql(`begin; insert into x01 select i, repeat('x',200) from generate_series(1,300) i; savepoint sp;
 insert into x01 select 1000+i, repeat('x',200) from generate_series(1,300) i; rollback to sp;
 insert into x01 values (3000,'tail'); commit`,
			`do $$ begin for i in 1..50 loop
  begin insert into x01 select 10000+i*100+j, repeat('y',200) from generate_series(1,50) j;
  if i%2=0 then raise exception 'x'; end if; exception when others then null; end;
 end loop; end $$`)
		s.mark()
		for _, r := range s.roads {
			list := r.transactions()
			require.Len(s, list, 2)
			require.Len(s, list[0].Changes, 301)
			require.Equal(s, "insert x01 new{id=<3000> t=<tail>}", show(&list[0].Changes[300]))
			require.Len(s, list[1].Changes, 1250)
			require.Equal(s, "10101", string(list[1].Changes[0].New.Value(0).Text))
			require.Equal(s, "14950", string(list[1].Changes[1249].New.Value(0).Text))
			if r.streaming {
				r.cameEarly(2)
				continue
			}
			spilled(r)
		}
		s.done()
	})
}

// cameEarly checks that at least so many transactions came before their commit.
func (r *road) cameEarly(n uint64) {
	r.Helper()
	r.until("transactions were streamed", func() bool { return r.pipeline.Status().Streamed >= n })
}

func TestX03SomeRollBack(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x03(id int primary key, t text)", "alter table x03 alter t set storage external")
		spilled := s.spills()
		roads := []*road{s.road(way{}), s.road(way{streaming: true})}
		for i := 1; i <= 10; i++ {
			end := "commit"
			if i%3 == 0 {
				end = "rollback"
			}
			s.sql(fmt.Sprintf("begin; insert into x03 select %d*1000+j, repeat('x',10000) from generate_series(1,100) j; %s", i, end))
		}
		for _, r := range roads {
			r.until("seven transactions are there", func() bool { return len(r.sink.Transactions()) == 7 })
			last := r.transactions()[6].EndLSN
			// Nothing else happens at the source: it is this commit's end that is confirmed.
			r.until("the last end is confirmed", func() bool { return r.confirmed() >= last })
			var firsts []string
			for _, tx := range r.transactions() {
				require.Len(s, tx.Changes, 100)
				firsts = append(firsts, string(tx.Changes[0].New.Value(0).Text))
			}
			require.Equal(s, []string{"1001", "2001", "4001", "5001", "7001", "8001", "10001"}, firsts)
		}
		spilled(roads[0])
		roads[1].cameEarly(7)
		s.done()
	})
}

func TestX04Interleaved(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x04(id int primary key)")
		s.road(way{})
		s.road(way{route: inProcess, mode: pipeline.ModeTransaction})
		s.road(way{streaming: true})
		a, b := s.session("postgres", pinned), s.session("postgres", pinned)
		a.sql("begin", "insert into x04 values (1)")
		b.sql("begin", "insert into x04 values (2)")
		a.sql("insert into x04 values (3)")
		b.sql("commit")
		for _, r := range s.roads {
			r.until("B is stored", func() bool { return len(r.transactions()) == 1 })
			r.crash()
		}
		a.sql("insert into x04 values (4)", "commit")
		for _, r := range s.roads {
			r.begin()
		}
		s.run(given{want: []string{
			"insert x04 new{id=<2>}", commit,
			"insert x04 new{id=<1>}", "insert x04 new{id=<3>}", "insert x04 new{id=<4>}", commit,
		}})
	})
}

// trap: once set, the sidecar dies at the next unit, and the sink's answer is
// never heard.
type trap struct{ set atomic.Bool }

var errGone = &core.SinkError{Class: core.ClassUnknown, Call: "the sidecar is gone"}

func (t *trap) spring(r **road) func(core.LSN) error {
	return func(core.LSN) error {
		if !t.set.CompareAndSwap(true, false) {
			return nil
		}
		(*r).abort()
		return errGone
	}
}

func TestX06MessageAndRow(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x06(id int primary key)")
		for _, way := range []way{{messages: true}, {messages: true, route: inProcess}, {messages: true, streaming: true}, {}} {
			var r *road
			var early, late trap
			way.before, way.after = early.spring(&r), late.spring(&r)
			r = s.road(way)
			write := func(id int) {
				s.sql(fmt.Sprintf("begin; select pg_logical_emit_message(true,'t','in tx'); insert into x06 values (%d); commit", id))
			}
			var want []string
			for i, cut := range []*trap{nil, &early, &late} {
				if cut != nil {
					cut.set.Store(true)
				}
				id := 10*len(s.roads) + i
				write(id)
				if cut != nil {
					require.Error(s, r.over())
					r.begin()
				}
				if way.messages {
					want = append(want, "message t=<in tx>")
				}
				want = append(want, fmt.Sprintf("insert x06 new{id=<%d>}", id), commit)
				r.until("it is delivered", func() bool { return len(r.shown()) == len(want) })
				require.Equal(s, want, r.shown())
			}
			r.drain()
			require.Empty(s, r.sink.Messages(), "each is in its transaction")
			require.NoError(s, inOrder(r.sink.Transactions(), r.sink.Units()))
			for _, tx := range r.transactions() {
				if way.messages {
					require.Less(s, tx.Changes[0].Message.LSN, tx.CommitLSN)
				}
			}
		}
	})
}

func TestX09NothingForUs(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table x09(id int primary key)", "create table other(id int)",
			"create publication narrow for table x09, mark")
		s.road(way{publications: []string{"narrow"}})
		s.road(way{publications: []string{"narrow"}, route: inProcess, mode: pipeline.ModeTransaction})
		s.sql("do $$ begin for i in 1..20000 loop insert into other values (i); commit; end loop; end $$", "begin; commit")
		written := s.app.lsn("select pg_current_wal_lsn()")
		s.filler()
		for _, r := range s.roads {
			r.until("the slot follows", func() bool { return r.confirmed() >= written })
			require.Empty(s, r.sink.Transactions())
			for _, unit := range r.sink.Units() {
				require.Zero(s, unit.Transactions)
			}
		}
		s.run(given{run: []string{"insert into x09 values (1)"}, want: []string{"insert x09 new{id=<1>}", commit}})
	})
}

// filler moves the WAL further than an idle step waits for, with nothing for anybody in
// it.
func (s *scene) filler() {
	s.sql("select pg_logical_emit_message(false,'filler',repeat('x',17*1024*1024))")
}
