package windows

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

func init() { add(anyMajor, casesLimbo) }

// casesLimbo: a commit that waits for a synchronous standby is streamed before anybody can
// see it, and so before a snapshot can show it.
var casesLimbo = []window{
	{"N3", 0, "UP, Q a synchronous standby away", "no chunk before it is visible, VAL ACK MONO CLEAN", streamedBeforeVisible(false)},
	{"N3", 0, "UP, Q a synchronous standby away; SC, S SIGKILL", "the writer is waited for, VAL ACK MONO CLEAN", streamedBeforeVisible(true)},
}

// streamedBeforeVisible commits changes of rows that are copied later, which the sink gets
// before they are visible. Chunks whose window opens then must show them; a sidecar that
// does not know of them any more must wait for who holds a lock on the table.
func streamedBeforeVisible(killed bool) func(*scene) {
	return func(s *scene) {
		s.long(2 * limit).own().beside()
		s.startSink("")
		gate := s.gate()
		sidecar := s.startSidecar("chunk.marked=block:" + gate + "@1;chunk.locked=delay:1ms@6;chunk.snapshot=delay:1ms@2")
		s.witnessed(sidecar, failpoint.ChunkMarked, "block")
		visible := s.limbo()
		s.until("it is streamed", func() bool { return s.there(s.tx) })
		require.Equal(s.T, "0", s.ask(s.source.DSN, "SELECT count(*)::text FROM ledger WHERE tx = $1::int", fmt.Sprint(s.tx)))
		s.seen("transaction %d streamed, not visible", s.tx)
		s.release(gate)
		s.until("a later chunk looks again and again", func() bool { return s.passages(sidecar, failpoint.ChunkLocked) > 0 })
		require.Zero(s.T, s.passages(sidecar, failpoint.ChunkSnapshot), "a chunk was read under a snapshot that does not show it")
		if killed {
			s.kill(sidecar)
			s.seen("SIGKILL")
			sidecar = s.startSidecar("chunk.locked=delay:1ms@1")
			s.until("the next one waits for the writer", func() bool {
				return s.ask(s.source.DSN, `SELECT 'yes' FROM pg_stat_activity WHERE datname = current_database()
AND application_name = 'replicant-sidecar' AND query = 'SELECT pg_catalog.pg_current_snapshot()' LIMIT 1`) == "yes"
			})
			require.Zero(s.T, s.passages(sidecar, failpoint.ChunkLocked), "a window was opened before the writer was over")
		}
		visible()
		s.complete(sidecar)
		s.write()
		s.same()
	}
}

// limbo commits changes of t that stay invisible until the returned function is called.
// Everybody else's commits wait for nobody.
func (s *scene) limbo() (visible func()) {
	s.Helper()
	s.source.Exec(s.T, "ALTER DATABASE "+pgx.Identifier{s.source.Name}.Sanitize()+" SET synchronous_commit = 'local'",
		"ALTER SYSTEM SET synchronous_standby_names = 'away'", "SELECT pg_reload_conf()")
	s.until("a commit waits", func() bool { return s.waits("SELECT pg_logical_emit_message(true, 'probe', '')") })
	require.True(s.T, s.waits("BEGIN; UPDATE t SET v = repeat('l', 3000) WHERE id IN (SELECT id FROM t ORDER BY id OFFSET 60 LIMIT 5);"+
		"UPDATE t SET id = id + 10000000000000::bigint WHERE id IN (SELECT id FROM t ORDER BY id OFFSET 120 LIMIT 5);"+
		"DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY id OFFSET 250 LIMIT 5); "+s.line(15)+"; COMMIT"), "it was visible at once")
	return func() {
		s.source.Exec(s.T, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	}
}

// waits runs a transaction and reports whether its commit waits for a standby.
func (s *scene) waits(sql string) bool {
	s.Helper()
	conn := s.session()
	s.do(conn, "SET synchronous_commit = 'on'")
	over := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(s.ctx), sql)
		over <- err
	}()
	for {
		select {
		case err := <-over:
			require.NoError(s.T, err)
			return false
		case <-time.After(15 * time.Millisecond):
			if s.ask(s.source.DSN, "SELECT wait_event FROM pg_stat_activity WHERE pid = $1::text::int", fmt.Sprint(conn.PgConn().PID())) == "SyncRep" {
				return true
			}
		}
	}
}
