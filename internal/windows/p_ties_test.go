package windows

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// tieAtThePoint makes slots while four clients write, until a commit record has begun
// exactly at the consistent point three times. The server finds that point behind the end
// of all that ran when it began, and of all that ran then: the third client is neither,
// and its commit is the next record. A sink that missed it would never show it.
func tieAtThePoint(s *scene) {
	s.kind, s.intent = "log", []string{"--snapshot", "initial"}
	s.long(4 * limit).own().make()
	s.startSink("")
	name, ties := s.slot, 0
	var clients [4]*pgx.Conn
	for i := range clients {
		clients[i] = s.session()
	}
	for n := 1; ties < 3; n++ {
		s.slot = fmt.Sprintf("%s_%d", name, n)
		open := func(i int) {
			s.do(clients[i], fmt.Sprintf("BEGIN; INSERT INTO ledger VALUES (%d, %d, 1)", i+1, n))
		}
		waited := func(before string) (xid string) {
			s.until("the slot waits for a transaction", func() bool {
				xid = s.ask(s.source.DSN, "SELECT transactionid::text FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted")
				return xid != "" && xid != before
			})
			return xid
		}
		open(0)
		gate := s.gate()
		sidecar := s.startSidecar("snapshot.slot=block:" + gate)
		first := waited("")
		open(1)
		s.do(clients[0], "COMMIT")
		waited(first)
		open(2)
		open(3)
		s.do(clients[1], "COMMIT")
		s.until("the slot is made", func() bool { all, _ := failpoint.ReadWitness(sidecar.file()); return len(all) > 0 })
		s.do(clients[2], "COMMIT")
		s.do(clients[3], "COMMIT")
		s.release(gate)
		s.until("both are streamed", func() bool {
			return s.ask(s.sink.DSN, "SELECT (count(*) = 2)::text FROM testsink.log WHERE stream = $1 AND op = 'insert'", s.slot) == "true"
		})
		s.stop(sidecar)
		ties += s.onceAndTie(n)
	}
}

// onceAndTie requires each line of each client exactly once in copy and stream, drops the
// slot, and says whether a commit record began at its consistent point.
func (s *scene) onceAndTie(n int) (ties int) {
	s.Helper()
	require.Equal(s.T, "true 4", s.ask(s.sink.DSN, `SELECT bool_and(n = most AND n = different)::text || ' ' || count(*) FROM (SELECT count(*) AS n, count(DISTINCT tx) AS different, max(tx) AS most
 FROM (SELECT payload::jsonb->'new'->>'shard' AS shard, (payload::jsonb->'new'->>'tx')::int AS tx FROM testsink.log
  WHERE stream = $1 AND relation = 'public.ledger' AND op IN ('insert', 'snapshot')) e GROUP BY shard) x`, s.slot), "a gap or a repeat")
	tie := s.ask(s.sink.DSN, `SELECT count(*)::text FROM testsink.log l JOIN testsink.completion c USING (stream)
WHERE l.stream = $1 AND l.op = 'insert' AND l.commit_lsn = c.position`, s.slot)
	s.source.Exec(s.T, "SELECT pg_drop_replication_slot('"+s.slot+"')")
	if tie != "1" {
		return 0
	}
	s.seen("slot %d: commit at the point", n)
	return 1
}

// tieUnderLoad is the same with four clients that write as they like.
func tieUnderLoad(s *scene) {
	s.kind, s.intent = "log", []string{"--snapshot", "initial"}
	s.long(4 * limit).own().make()
	s.startSink("")
	name, ties := s.slot, 0
	for n := 1; ties < 3; n++ {
		s.slot = fmt.Sprintf("%s_%d", name, n)
		s.source.Exec(s.T, "TRUNCATE ledger")
		ctx, cancel := context.WithCancel(s.ctx)
		var wg sync.WaitGroup
		for shard := range 4 {
			conn := s.session()
			wg.Go(func() {
				load(ctx, conn, shard+1)
				_ = conn.Close(context.Background())
			})
		}
		sidecar := s.startSidecar("")
		s.until("it delivers from every client", func() bool {
			return s.ask(s.sink.DSN, `SELECT (count(DISTINCT payload::jsonb->'new'->>'shard') = 4)::text FROM testsink.log WHERE stream = $1 AND op = 'insert'`, s.slot) == "true"
		})
		s.stop(sidecar)
		cancel()
		wg.Wait()
		ties += s.onceAndTie(n)
	}
}
