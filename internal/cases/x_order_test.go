package cases_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

func TestX11Truncate(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("drop publication p", "create table x11a(id int primary key)", "create table x11b(id int primary key, a int references x11a)",
			"create table x11c(id int primary key)", "create publication ab for table x11a, x11b, mark")
		for _, w := range []way{{}, {route: inProcess, mode: pipeline.ModeTransaction}, {streaming: true}} {
			w.publications = []string{"ab"}
			s.road(w)
		}
		s.run(given{
			run: []string{
				"insert into x11a values (1)", "insert into x11b values (1,1)",
				"truncate x11a, x11b, x11c restart identity cascade", "begin; truncate x11b; rollback", "truncate x11c",
				"truncate x11a cascade", "begin; insert into x11a values (2); truncate x11b; insert into x11b values (3,2); commit",
			},
			want: []string{
				"insert x11a new{id=<1>}", commit, "insert x11b new{id=<1> a=<1>}", commit,
				"truncate x11a, x11b restart cascade", commit,
				"truncate x11a, x11b cascade", commit,
				"insert x11a new{id=<2>}", "truncate x11b", "insert x11b new{id=<3> a=<2>}", commit,
			},
		})
	})
}

func TestX13DeferredConstraint(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x13p(id int primary key)", "create table x13c(id int primary key, p int references x13p deferrable initially deferred)")
		s.road(way{})
		s.road(way{route: inProcess, mode: pipeline.ModeTransaction})
		s.road(way{streaming: true})
		s.run(given{
			run:  []string{"begin; insert into x13c values (1,100); insert into x13p values (100); commit"},
			want: []string{"insert x13c new{id=<1> p=<100>}", "insert x13p new{id=<100>}", commit},
		})
	})
}

// The server's patience is short, and the sink's answer takes twice as long: for a batch,
// and in the middle of one large transaction.
func TestX16SenderTimeout(t *testing.T) {
	const patient = 1200 * time.Millisecond
	each(t, func(s *scene) {
		s.sql("create table x16(id int primary key)")
		var hold, holdPiece [2]atomic.Bool
		var walsenders []string
		for i := range hold {
			var r *road
			r = s.road(way{
				limits: smallLimits, streaming: i == 1,
				before: func(core.LSN) error {
					if hold[i].CompareAndSwap(true, false) {
						r.outlasts(2 * patient)
					}
					return nil
				},
				wrap: func(m *sinktest.Memory) core.Sink {
					return &piecewise{m, func(n int) error {
						if n == 3 && holdPiece[i].CompareAndSwap(true, false) {
							r.outlasts(2 * patient)
						}
						return nil
					}}
				},
				adjust: func(o *pipeline.Options) {
					o.Source.SenderTimeout, o.Source.StatusInterval = patient, time.Hour
				},
			})
			walsenders = append(walsenders, r.walsender())
			hold[i].Store(true)
		}
		s.sql("truncate x16")
		for i, r := range s.roads {
			r.until("it was held up", func() bool { return !hold[i].Load() && len(r.transactions()) == 1 })
			holdPiece[i].Store(true)
		}
		s.sql("insert into x16 select generate_series(1,6000)")
		for i, r := range s.roads {
			r.until("the large one is there", func() bool { return len(r.transactions()) == 2 })
			require.False(s, holdPiece[i].Load())
			require.EqualValues(s, 1, r.pipeline.Status().Sessions)
			require.Equal(s, walsenders[i], r.walsender())
		}
		s.done()
	})
}

// walsender is the server's process that reads for the road.
func (r *road) walsender() string {
	r.Helper()
	return r.app.one("select active_pid from pg_replication_slots where slot_name=" + literal(r.slot))
}

// outlasts holds the sink up until the server's clock has moved that far. It runs on the
// sink's side.
func (r *road) outlasts(d time.Duration) {
	answer, err := r.watch.try(fmt.Sprintf("select pg_sleep(%f)", d.Seconds()))
	if err != nil || len(answer.rows) != 1 {
		r.Errorf("the server's clock: %v", err)
	}
	r.sample()
}

// The begin of a transaction and its first row have one LSN. The sidecar dies again and
// again while many small ones come.
func TestX18ManyCrashes(t *testing.T) {
	const crashes, each1 = 8, 25
	each(t, func(s *scene) {
		s.sql("create table x18(id int primary key)")
		writer := s.session("postgres", pinned)
		done := make(chan error, 1)
		roads := []*road{s.road(way{}), s.road(way{route: inProcess, mode: pipeline.ModeTransaction})}
		go func() {
			for i := range crashes * each1 {
				if _, err := writer.try(fmt.Sprintf("insert into x18 values (%d)", i)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for i := 1; i <= crashes; i++ {
			for _, r := range roads {
				r.until("more is stored", func() bool { return len(r.sink.Transactions()) >= (i-1)*each1 })
				r.crash()
				r.begin()
			}
		}
		require.NoError(s, <-done)
		s.mark()
		for _, r := range roads {
			require.Len(s, r.transactions(), crashes*each1)
		}
		s.done()
	})
}

func TestX19MessagesOutside(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x19(id int primary key)")
		for _, w := range []way{{}, {route: inProcess, mode: pipeline.ModeTransaction}, {streaming: true}} {
			w.messages = true
			w.adjust = func(o *pipeline.Options) { o.NoHeartbeat = true }
			s.road(w)
		}
		emit := func(text string) string { return "select pg_logical_emit_message(false,'hb','" + text + "')" }
		s.sql(emit("1"), "begin; insert into x19 values (1); "+emit("2")+"; rollback")
		s.mark()
		open := s.session("postgres", pinned)
		open.sql("begin", "insert into x19 values (2)")
		s.sql(emit("3"))
		open.sql("insert into x19 values (3)", emit("4"), "insert into x19 values (4)", "commit")
		s.mark()
		for _, r := range s.roads {
			var texts []string
			for _, m := range r.sink.Messages() {
				require.False(s, m.Transactional)
				require.Equal(s, "hb", string(m.Prefix))
				texts = append(texts, string(m.Content))
			}
			require.Equal(s, []string{"1", "2", "3", "4"}, texts)
			require.Equal(s, []string{"insert x19 new{id=<2>}", "insert x19 new{id=<3>}", "insert x19 new{id=<4>}", commit}, r.shown())
			r.drain()
			require.Empty(s, differencesOf(r))
		}
	})
}

func TestX20OnlyMessagesOnlyCatalog(t *testing.T) {
	each(t, func(s *scene) {
		for _, w := range []way{{messages: true}, {messages: true, streaming: true}, {route: inProcess}} {
			s.road(w)
		}
		s.sql("select pg_logical_emit_message(true,'t','body')", "create table zz(i int)", "drop table zz")
		written := s.app.lsn("select pg_current_wal_lsn()")
		s.filler()
		for _, r := range s.roads {
			r.until("the slot follows", func() bool { return r.confirmed() >= written })
			var want []string
			if r.messages {
				want = []string{"message t=<body>", commit}
			}
			require.Equal(s, want, r.shown())
			for _, tx := range r.sink.Transactions() {
				require.Len(s, tx.Changes, 1, "an empty transaction was delivered")
			}
		}
	})
}
