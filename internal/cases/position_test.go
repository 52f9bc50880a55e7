package cases_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// attempts bounds how often a coincidence is tried for; it comes nearly every time.
const attempts = 30

// Z01: a commit record that starts exactly where an idle step left the position. A rule
// that compares commit LSNs with positions loses that transaction.
func TestZ01CommitAtIdlePosition(t *testing.T) {
	eachAlone(t, func(s *scene) {
		s.sql("create table z01(id int primary key)")
		r := s.road(way{})
		writer := s.session("postgres", pinned)
		ties := map[bool]int{} // with a restart in between, and without
		for i := 1; i <= attempts && (ties[true] == 0 || ties[false] == 0); i++ {
			restart := i%2 == 0
			writer.sql("begin", fmt.Sprintf("insert into z01 values (%d)", i))
			written := s.app.lsn("select pg_current_wal_insert_lsn()")
			s.filler()
			var idle core.LSN
			r.until("an idle step", func() bool {
				idle = r.sink.Stored().Position
				return idle > written+17<<20
			})
			if restart {
				r.until("it is confirmed", func() bool { return r.confirmed() == idle })
				r.crash()
				r.begin()
			}
			writer.sql("commit")
			r.until("the transaction is delivered", func() bool { return len(r.transactions()) == i })
			if r.transactions()[i-1].CommitLSN == idle {
				ties[restart]++
			}
		}
		require.NotZero(s, ties[false], "no commit record started at an idle position")
		require.NotZero(s, ties[true], "no commit record started at a position that a restart took up")
		s.done()
	})
}

// Z02: the commit record of one transaction starts where the one before ends.
func TestZ02AdjacentCommits(t *testing.T) {
	const clients, each = 6, 25
	eachAlone(t, func(s *scene) {
		s.sql("create table z02(id int primary key)")
		r := s.road(way{})
		one := s.road(way{mode: pipeline.ModeTransaction, route: inProcess})
		var writers []*session
		for range clients {
			writers = append(writers, s.session("postgres", pinned))
		}
		n := 0
		for range attempts {
			var group sync.WaitGroup
			for w, writer := range writers {
				group.Go(func() {
					for i := range each {
						if _, err := writer.try(fmt.Sprintf("insert into z02 values (%d)", n+w*each+i)); err != nil {
							s.Errorf("insert: %v", err)
							return
						}
					}
				})
			}
			group.Wait()
			n += clients * each
			s.mark()
			if adjacent(r.transactions()) > 0 {
				break
			}
		}
		require.Len(s, r.transactions(), n)
		require.Len(s, one.transactions(), n)
		require.NotZero(s, adjacent(r.transactions()), "no two commits were adjacent")
		s.done()
	})
}

// The same over a restart: the position that the sink stored is the commit LSN of the
// transaction that comes next.
func TestZ02AdjacentOverRestart(t *testing.T) {
	eachAlone(t, func(s *scene) {
		s.sql("create table z02(id int primary key)")
		var r *road
		var late trap
		r = s.road(way{mode: pipeline.ModeTransaction, after: late.spring(&r)})
		a, b := s.session("postgres", pinned), s.session("postgres", pinned)
		ties := 0
		for i := 1; i <= attempts && ties == 0; i++ {
			a.sql("begin", fmt.Sprintf("insert into z02 values (%d)", 2*i))
			b.sql("begin", fmt.Sprintf("insert into z02 values (%d)", 2*i+1))
			late.set.Store(true) // dies when the first is stored
			a.sql("commit")
			b.sql("commit")
			require.Error(s, r.over())
			require.Len(s, r.transactions(), 2*i-1)
			stored := r.sink.Stored().Position
			r.begin()
			r.until("the second is delivered", func() bool { return len(r.transactions()) == 2*i })
			if r.transactions()[2*i-1].CommitLSN == stored {
				ties++
			}
		}
		require.NotZero(s, ties, "no commit was adjacent to the stored position")
		s.done()
	})
}

// adjacent counts commit records that start where the one before ends.
func adjacent(list []core.Transaction) int {
	n := 0
	for i := 1; i < len(list); i++ {
		if list[i].CommitLSN == list[i-1].EndLSN {
			n++
		}
	}
	return n
}
