package windows

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

func init() { add(anyMajor, casesTies) }

// casesTies are rows where a commit LSN equals a position, or a transaction is older than
// one.
var casesTies = []window{
	{"U15", 0, "UP, Q until the tie is seen", "delivered, no gap", tieAtTheBase},
	{"U16", 0, "UP, Q; SC, P status.after=kill@1", exact, tieWithMessage(1)},
	{"U16", 0, "UP, Q; SC, P status.after=kill@3", exact, tieWithMessage(3)},
	{"U17", 0, "UP, two writers; SC, P status.after=kill@1", exact, tieOfTwo(1)},
	{"U17", 0, "UP, two writers; SC, P status.after=kill@3", exact, tieOfTwo(3)},
	{"U18", 0, "SC, B read.change@1, P read.keepalive=kill@1", exact, keepaliveInside(1, 1)},
	{"U18", 0, "SC, B read.change@3000, P read.keepalive=kill@2", exact, keepaliveInside(3000, 2)},
	{"U19", 0, "UP, Q open; SC, P idle.told=kill@1", exact, olderThanIdle("open", 1)},
	{"U19", 0, "UP, Q open; SC, P idle.told=kill@2", exact, olderThanIdle("open", 2)},
	{"U19", 0, "UP, Q streamed; SC, P idle.told=kill@1", exact, olderThanIdle("streamed", 1)},
	{"U19", 0, "UP, Q streamed; SC, P idle.told=kill@2", exact, olderThanIdle("streamed", 2)},
	{"U19", 0, "UP, Q prepared; SC, P idle.told=kill@1", exact, olderThanIdle("prepared", 1)},
	{"U19", 0, "UP, Q prepared; SC, P idle.told=kill@2", exact, olderThanIdle("prepared", 2)},
}

var baseLine = regexp.MustCompile(`"base stored","position":"([0-9A-F/]+)"`)

// tieAtTheBase makes slots under load until a transaction commits exactly at the
// consistent point. A sink that missed it would never show one.
func tieAtTheBase(s *scene) {
	s.kind = "log"
	s.own().make()
	s.startSink("")
	ctx, cancel := context.WithCancel(s.ctx)
	var wg sync.WaitGroup
	for shard := range 4 {
		conn := s.session()
		wg.Go(func() { load(ctx, conn, shard+1) })
	}
	defer wg.Wait()
	defer cancel()
	name := s.slot
	for n := 1; ; n++ {
		s.slot = fmt.Sprintf("%s_%d", name, n)
		sidecar := s.startSidecar("")
		s.until("it delivers", func() bool {
			return s.ask(s.sink.DSN, "SELECT (count(*) > 20)::text FROM testsink.log WHERE stream = $1", s.slot) == "true"
		})
		s.stop(sidecar)
		base := baseLine.FindStringSubmatch(sidecar.said())
		require.NotNil(s.T, base)
		require.Equal(s.T, "0", s.ask(s.sink.DSN, `SELECT count(*)::text FROM (SELECT (payload::jsonb->'new'->>'tx')::int
 - lag((payload::jsonb->'new'->>'tx')::int) OVER (PARTITION BY payload::jsonb->'new'->>'shard' ORDER BY seq) AS step
 FROM testsink.log WHERE stream = $1) x WHERE step <> 1`, s.slot), "a gap or a repeat")
		tie := s.ask(s.sink.DSN, "SELECT count(*)::text FROM testsink.log WHERE stream = $1 AND commit_lsn = $2::text::pg_lsn", s.slot, base[1])
		s.source.Exec(s.T, "SELECT pg_drop_replication_slot('"+s.slot+"')")
		if tie == "1" {
			s.seen("slot %d: commit at the base %s", n, base[1])
			return
		}
	}
}

// load commits one row of the ledger after the other. Each is open for a while, so that
// the commit of one that began before the consistent point comes behind it.
func load(ctx context.Context, conn *pgx.Conn, shard int) {
	for n := 1; ; n++ {
		if _, err := conn.Exec(ctx, fmt.Sprintf("BEGIN; INSERT INTO ledger VALUES (%d, %d, 1)", shard, n)); err != nil {
			return
		}
		time.Sleep(3 * time.Millisecond)
		if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
			return
		}
	}
}

// tieWithMessage writes a message as the last record before a commit, kills behind the
// status that tells the message's position, and commits.
func tieWithMessage(ordinal int) func(*scene) {
	return func(s *scene) {
		s.args = append(s.args, "--messages")
		s.own().base()
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("status.after=kill@%d", ordinal))
		for n := 1; n < ordinal; n++ {
			s.write()
			s.arrived()
			s.until("it is told", func() bool { return s.toldAll() })
		}
		conn := s.session()
		s.do(conn, "BEGIN; INSERT INTO t VALUES (1, 'a'); "+s.line(1))
		// From a session without a transaction of its own: its message is flushed, and no
		// commit record comes behind it.
		at := s.ask(s.source.DSN, "SELECT pg_logical_emit_message(false, 'w', 'between')::text")
		s.killed(sidecar, failpoint.StatusAfter)
		s.do(conn, "COMMIT")
		require.Equal(s.T, at, s.confirmed(), "the message was told")
		s.startSidecar("")
		s.judge(0, 0)
		require.Equal(s.T, "1", s.ask(s.sink.DSN, "SELECT count(*)::text FROM testsink.message WHERE lsn = $1::text::pg_lsn", at))
		s.tie(at)
	}
}

// tie requires the last transaction's commit LSN to be a position.
func (s *scene) tie(at string) {
	s.Helper()
	got := s.ask(s.sink.DSN, `SELECT commit_lsn::text FROM testsink.log WHERE relation = 'public.ledger' AND payload::jsonb->'new'->>'tx' = $1::text`, fmt.Sprint(s.tx))
	require.Equal(s.T, at, got, "the tie was not met")
	s.seen("tie at %s", at)
}

// toldAll reports whether the slot was told what is stored.
func (s *scene) toldAll() bool {
	at, err := s.durable()(s.ctx)
	return err == nil && at.String() == s.confirmed()
}

// tieOfTwo lets one transaction end where the next one's commit record begins, and kills
// behind the status that tells the first.
func tieOfTwo(ordinal int) func(*scene) {
	return func(s *scene) {
		s.own().base()
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("status.after=kill@%d", ordinal))
		for n := 1; n < ordinal; n++ {
			s.write()
			s.arrived()
			s.until("it is told", func() bool { return s.toldAll() })
		}
		first, second := s.session(), s.session()
		s.do(first, "BEGIN; INSERT INTO t VALUES (1, 'a'); "+s.line(1))
		s.do(second, "BEGIN; INSERT INTO t VALUES (2, 'b'); "+s.line(1))
		s.do(first, "COMMIT")
		s.killed(sidecar, failpoint.StatusAfter)
		s.do(second, "COMMIT")
		at := s.confirmed()
		s.startSidecar("")
		s.judge(0, 0)
		s.tie(at)
	}
}

// keepaliveInside holds the reader inside a transaction until the server asks whether
// anybody is there, once or more: its keepalives come between two changes, and name the
// commit's LSN.
func keepaliveInside(read, keepalives int) func(*scene) {
	return func(s *scene) {
		s.args = append(s.args, "--sender-timeout", "4s")
		s.make()
		p, dsn := s.postgres(s.source.DSN, replication)
		s.from = dsn
		s.base()
		s.commit(9000, s.rows(9000, 2000))
		inside := s.tx
		p.mu.Lock()
		p.record = true
		p.mu.Unlock()
		s.startSink("")
		gate := s.gate()
		sidecar := s.startSidecar(fmt.Sprintf("read.change=block:%s@%d;read.keepalive=kill@%d", gate, read, keepalives))
		s.witnessed(sidecar, failpoint.ReadChange, "block")
		for range keepalives {
			require.NoError(s.T, sidecar.Signal(syscall.SIGSTOP)) // its statuses would keep the server from asking
			time.Sleep(2500 * time.Millisecond)
			require.NoError(s.T, sidecar.Signal(syscall.SIGCONT))
			time.Sleep(500 * time.Millisecond) // its status, after which the server asks anew
		}
		s.release(gate)
		s.killed(sidecar, failpoint.ReadKeepalive)
		p.mu.Lock()
		p.record = false
		p.mu.Unlock()
		s.startSidecar("")
		s.judge(0, 0)
		commit, err := core.ParseLSN(s.ask(s.sink.DSN, `SELECT commit_lsn::text FROM testsink.log WHERE relation = 'public.ledger' AND payload::jsonb->'new'->>'tx' = $1::text`, fmt.Sprint(inside)))
		require.NoError(s.T, err)
		require.True(s.T, p.told(commit), "no keepalive named the commit's LSN %s", commit)
		s.seen("keepalive at %s", commit)
	}
}

// olderThanIdle keeps a transaction open, in progress at us, or prepared, while an idle
// step passes its rows; then it commits.
func olderThanIdle(how string, ordinal int) func(*scene) {
	return func(s *scene) {
		s.long(2 * limit).args = append(s.args, "--sender-timeout", "1s")
		rows := 10
		if how == "streamed" {
			s.streamed()
			rows = 3000
		}
		s.base()
		s.startSink("")
		conn := s.session()
		s.do(conn, "BEGIN; "+s.rows(rows, 100)+"; "+s.line(rows))
		rest := "COMMIT"
		if how == "prepared" {
			s.do(conn, "PREPARE TRANSACTION '"+s.slot+"'")
			rest = "COMMIT PREPARED '" + s.slot + "'"
		}
		sidecar := s.startSidecar(fmt.Sprintf("idle.told=kill@%d", ordinal))
		for {
			s.filtered()
			if _, err := sidecar.Wait(300 * time.Millisecond); err == nil {
				break
			}
			require.NoError(s.T, s.ctx.Err())
		}
		s.killed(sidecar, failpoint.IdleTold)
		if how == "streamed" {
			s.until("the server says what it streamed", func() bool {
				n := s.ask(s.source.DSN, "SELECT stream_txns::text FROM pg_stat_replication_slots WHERE slot_name = $1", s.slot)
				return n != "" && n != "0"
			})
			s.seen("it was streamed")
		}
		s.do(conn, rest)
		s.startSidecar("")
		s.judge(0, 0)
	}
}
