package cases_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/filestore"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

const guardOften = 20 * time.Millisecond

func looksOften(o *pipeline.Options) { o.GuardInterval = guardOften }

// Nothing happens in the captured table; another one and another database are busy.
func TestS01BusyRest(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table s01(id int primary key)", "create table other(id int, t text)", "create publication narrow for table s01, mark")
		r := s.road(way{publications: []string{"narrow"}, adjust: func(o *pipeline.Options) {
			o.NoHeartbeat, o.GuardInterval = true, guardOften
		}})
		busy := &scene{T: s.T, major: s.major, db: s.db.Server.Database(s.T)}
		elsewhere := busy.session("postgres", pinned)
		s.sql("insert into other select i, repeat('x',1000) from generate_series(1,2000) i")
		elsewhere.sql("create table other(t text)")
		wrote := s.app.lsn("select pg_current_wal_lsn()")
		r.until("the server lets go of that WAL", func() bool {
			elsewhere.sql("select pg_logical_emit_message(false,'filler',repeat('x',17*1024*1024))", "checkpoint")
			return s.app.lsn("select restart_lsn from pg_replication_slots where slot_name="+literal(r.slot)) >= wrote
		})
		require.Empty(s, r.sink.Transactions())
		r.until("the status shows what is held", func() bool { return r.pipeline.Status().Guard.HeldBytes > 0 })
		s.run(given{run: []string{"insert into s01 values (1)"}, want: []string{"insert s01 new{id=<1>}", commit}})
	})
}

// A heartbeat is a message, not a row: no table has to be published or writable for it.
func TestS02HeartbeatNeedsNoTable(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table s02(id int primary key)", "create publication narrow for table s02")
		s.makeHostileRole()
		slot := "case_s02_" + s.db.Name[:8]
		s.sql("select pg_create_logical_replication_slot(" + literal(slot) + ",'pgoutput')")
		catalog, err := wal.OpenCatalog(s.Context(), wal.Options{DSN: s.dsn(hostileRole), Slot: slot, Publications: []string{"narrow"}})
		require.NoError(s, err)
		require.NoError(s, catalog.Heartbeat(s.Context()))
		require.NoError(s, catalog.Close())
		s.sql("insert into s02 values (1)") // flushes the WAL
		seen := s.app.one("select count(*) from pg_logical_slot_peek_binary_changes(" + literal(slot) + ",null,null,'proto_version','1'," +
			"'publication_names','narrow','messages','true') where position(" + literal(core.HeartbeatPrefix) + "::bytea in data) > 0")
		require.Equal(s, "1", seen, "the slot's reader gets it")
	})
}

func TestS04BlockedSinkIsNotOvertaken(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s04(id int primary key)")
		for _, route := range []route{overGRPC, inProcess} {
			var r *road
			var block atomic.Bool
			more := make(chan struct{})
			r = s.road(way{
				route: route,
				before: func(core.LSN) error {
					if !block.CompareAndSwap(true, false) {
						return nil
					}
					<-more
					r.outlasts(1200 * time.Millisecond) // keepalives pass, with a reply asked for
					r.abort()
					return errGone
				},
				adjust: func(o *pipeline.Options) { o.Source.SenderTimeout = 500 * time.Millisecond },
			})
			s.sql("truncate s04")
			r.until("the first is stored", func() bool { return len(r.transactions()) == 1 })
			block.Store(true)
			s.sql("do $$ begin for i in 0..300 loop insert into s04 values (i); commit; end loop; end $$")
			close(more)
			require.Error(s, r.over())
			require.Len(s, r.transactions(), 1)
			require.LessOrEqual(s, r.confirmed(), r.sink.Stored().Position)
			r.begin()
			r.until("all are there", func() bool { return len(r.transactions()) == 302 })
			r.drain()
			r.audit()
		}
	})
}

// What a reader tells first after each connect is what the slot knows already.
func TestS06FirstStatus(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s06(id int primary key)")
		l := s.wire()
		r := s.road(way{adjust: l.through})
		for i := range 9 {
			at := r.confirmed()
			before := len(l.positions())
			r.crash()
			r.begin()
			r.until("a status was sent", func() bool { return len(l.positions()) > before })
			require.GreaterOrEqual(s, l.positions()[before], at)
			if i%4 == 0 {
				s.mark()
			}
		}
		s.done()
		l.rises(r)
	})
}

func TestS25BrokenPipes(t *testing.T) {
	const breaks = 8
	each(t, func(s *scene) {
		s.sql("create table s25(id int primary key)")
		l := s.wire()
		r := s.road(way{adjust: l.through})
		var last core.LSN
		for i := range breaks {
			s.sql(fmt.Sprintf("do $$ begin for i in 1..20 loop insert into s25 values (%d*100+i); commit; end loop; end $$", i))
			before := r.pipeline.Status().Sessions
			r.until("more is stored", func() bool { return len(r.transactions()) > i*20 })
			s.sql("select pg_terminate_backend(active_pid) from pg_replication_slots where active and slot_name=" + literal(r.slot))
			r.until("a new session", func() bool { return r.pipeline.Status().Sessions > before })
			require.GreaterOrEqual(s, r.confirmed(), last)
			last = r.confirmed()
		}
		s.mark()
		require.Len(s, r.transactions(), breaks*20)
		s.done()
		l.rises(r)
	})
}

func TestS10SlotMadeAnew(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s10(id int primary key)")
		r := s.road(way{})
		s.sql("insert into s10 values (1)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		r.drain()
		r.released()
		s.sql("insert into s10 select generate_series(2,11)", "select pg_drop_replication_slot("+literal(r.slot)+")",
			"select pg_create_logical_replication_slot("+literal(r.slot)+",'pgoutput')", "insert into s10 select generate_series(12,21)")
		fresh := r.confirmed()
		r.waits = true
		for range 2 { // a restart does not help
			r.begin()
			halt := r.halts(core.HaltSlotAhead)
			require.Contains(s, halt.Error(), fmt.Sprintf("%d bytes", fresh-r.sink.Stored().Position))
		}
		require.Len(s, r.transactions(), 1)
		require.Equal(s, fresh, r.confirmed(), "and the slot stays as it is")
		r.released()
		s.sql("select pg_drop_replication_slot(" + literal(r.slot) + ")")
		r.begin()
		r.halts(core.HaltSlotMissing)
		require.Equal(s, "0", s.app.one("select count(*) from pg_replication_slots where slot_name="+literal(r.slot)))
	})
}

// Positions are numbers, in memory, in text, in files and on the wire.
func TestS12LSNsAreNumbers(t *testing.T) {
	texts := []string{"0/9", "0/A", "0/10", "0/FFFFFFFF", "1/0", "9/FF", "9/FFFFFFFF", "A/0", "10/0", "FFFFFFFF/FFFFFFFF"}
	var list []core.LSN
	for _, text := range texts {
		at, err := core.ParseLSN(text)
		require.NoError(t, err)
		require.Equal(t, text, at.String())
		list = append(list, at)
	}
	require.True(t, slices.IsSorted(list))
	require.False(t, slices.IsSorted(texts), "as text they are not in order")
}

// The WAL passes a border where the text of a position is shorter than the one before.
func TestS12AcrossABorder(t *testing.T) {
	const border = core.LSN(0xA00000000)
	eachScriptedAt(t, border-0x300, func(s *scripted) {
		s.send(relationOf(5, "s12"))
		var ends []core.LSN
		for i := range 6 {
			at := border - 0x280 + core.LSN(i)*0x100
			s.send(beginOf(at, uint32(7+i)), insertOf(5, fmt.Sprint(i)), commitOf(at, at+0x30))
			s.told(at + 0x30)
			ends = append(ends, at+0x30)
		}
		var got []core.LSN
		for _, tx := range s.sink.Transactions() {
			got = append(got, tx.EndLSN)
		}
		require.Equal(s, ends, got)
		require.Less(s, ends[0], border)
		require.Greater(s, ends[5], border)
	})
}

// X04's interleaved transactions, with a crash after each event.
func TestS13RestartAfterEveryEvent(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s13(id int primary key)")
		roads := []*road{s.road(way{}), s.road(way{route: inProcess, mode: pipeline.ModeTransaction}), s.road(way{streaming: true})}
		a, b := s.session("postgres", pinned), s.session("postgres", pinned)
		delivered := 0
		event := func(on *session, transactions int, statements ...string) {
			on.sql(statements...)
			delivered += transactions
			for _, r := range roads {
				r.until("it is stored", func() bool { return len(r.transactions()) == delivered })
				r.crash()
				r.begin()
			}
		}
		event(a, 0, "begin", "insert into s13 values (1)")
		event(b, 0, "begin", "insert into s13 values (2)")
		event(a, 0, "insert into s13 values (3)")
		event(b, 1, "commit")
		event(a, 0, "insert into s13 values (4)")
		event(a, 1, "commit")
		s.run(given{want: []string{
			"insert s13 new{id=<2>}", commit,
			"insert s13 new{id=<1>}", "insert s13 new{id=<3>}", "insert s13 new{id=<4>}", commit,
		}})
	})
}

// A crash between any two of the writes: rows, our own store, the slot.
func TestS22CrashBetweenTwoWrites(t *testing.T) {
	const rounds = 2
	each(t, func(s *scene) {
		s.sql("create table s22(id int primary key)")
		var r *road
		var early, late trap
		r = s.road(way{before: early.spring(&r), after: late.spring(&r)})
		for i := range rounds {
			for j, step := range []*trap{&early, &late, nil} {
				if step != nil {
					step.set.Store(true)
				}
				s.sql(fmt.Sprintf("insert into s22 values (%d)", 10*i+j))
				if step == nil {
					r.until("it is stored", func() bool { return len(r.transactions()) == 3*i+j+1 })
					r.abort() // perhaps told to the slot, perhaps not
				}
				require.Error(s, r.over())
				r.begin()
			}
		}
		s.done()
		require.Len(s, r.transactions(), 3*rounds)
	})
}

// The same with a store of ours: the sink sees at most the one transaction again.
func TestS22StoreOfOurs(t *testing.T) {
	const rounds = 6
	each(t, func(s *scene) {
		s.sql("create table s22(id int primary key)")
		sink := sinktest.NewLib()
		slot := "case_s22_" + s.db.Name[:8]
		var stop context.CancelFunc
		var cut atomic.Bool
		dies := func(core.Call, core.LSN) error {
			if cut.CompareAndSwap(true, false) {
				stop()
				return errGone
			}
			return nil
		}
		store, err := filestore.Open(s.TempDir())
		require.NoError(s, err)
		defer func() { require.NoError(s, store.Close()) }()
		for i := range rounds {
			sink.Before, sink.After = nil, nil
			switch i % 3 {
			case 0:
				sink.Before = dies
			case 1:
				sink.After = dies
			}
			ctx, cancel := context.WithCancel(s.Context())
			stop = cancel
			p, err := pipeline.New(pipeline.Options{
				Source: wal.Options{DSN: s.db.DSN, Slot: slot, Publications: []string{"p"}, StatusInterval: 20 * time.Millisecond},
				Sink:   sink, Store: store, GoForwardOnly: true,
			})
			require.NoError(s, err)
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			require.Eventually(s, func() bool { return p.Status().State == pipeline.StateStreaming }, patience, time.Millisecond, "%v", p.Status())
			cut.Store(i%3 != 2)
			s.sql(fmt.Sprintf("insert into s22 values (%d)", i))
			if i%3 == 2 {
				require.True(s, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return seenOf(l)[fmt.Sprint(i)] > 0 }))
				cancel()
			}
			require.ErrorIs(s, <-ended, pipeline.ErrAbort)
			cancel()
		}
		require.Len(s, seenOf(sink.Transactions()), rounds)
		for id, times := range seenOf(sink.Transactions()) {
			require.LessOrEqual(s, times, 2, "row %s", id)
		}
	})
}

// seenOf counts how often each row took effect.
func seenOf(list []sinktest.Transaction) map[string]int {
	seen := map[string]int{}
	for _, tx := range list {
		for i := range tx.Changes {
			seen[string(tx.Changes[i].New.Value(0).Text)]++
		}
	}
	return seen
}
