package testsink_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
)

// list runs a query of one text column at the sink.
func (r *road) list(sql string, args ...any) []string {
	r.Helper()
	rows, err := r.sink.Conn(r).Query(r.Context(), sql, args...)
	require.NoError(r, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(r, err)
	return all
}

func TestMessages(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		r := newRoad(t, pg, testsink.Config{Kind: testsink.KindBoth}, table)
		r.options.Source.Messages = true
		r.serve()
		r.stream()
		r.tx(1, 1, "SELECT pg_logical_emit_message(true, 'in', 'one')")
		r.source.Exec(t, "SELECT pg_logical_emit_message(false, 'out', '\\x00ff'::bytea)")
		r.tx(2, 3, "INSERT INTO t VALUES (1, 'a')", "SELECT pg_logical_emit_message(true, 'in', 'two')", "INSERT INTO t VALUES (2, 'b')")
		r.tx(3, 3, "INSERT INTO t VALUES (3, 'a')", "SELECT pg_logical_emit_message(true, 'in', 'three')", "INSERT INTO t VALUES (4, 'b')")
		r.source.Exec(t, "SELECT pg_logical_emit_message(false, 'out', '')")
		r.tx(4, 0)
		r.arrived(1, 4)
		require.NoError(t, r.log().Once())
		require.Equal(t, []string{"in one 0", "out \\x00ff -", "in two 1", "in three 1", "out \\x -"}, r.list(`SELECT convert_from(prefix, 'UTF8') || ' ' || CASE WHEN prefix = 'in' THEN convert_from(content, 'UTF8') ELSE content::text END
				|| ' ' || coalesce(ordinal::text, '-') FROM testsink.message ORDER BY seq`))
		// A message stands between the changes around it.
		require.Equal(t, []string{"0", "message", "2", "3"}, r.list(`WITH at AS (SELECT commit_lsn AS third FROM testsink.message WHERE prefix = 'in' ORDER BY seq OFFSET 2)
			SELECT what FROM (SELECT seq, ordinal::text AS what FROM testsink.log, at WHERE commit_lsn = third AND op <> 'message'
			UNION ALL SELECT seq, 'message' FROM testsink.message, at WHERE commit_lsn = third) a ORDER BY seq`))
		// Messages and transactions share one order.
		require.Equal(t, []string{"tx", "out", "tx", "tx", "out", "tx"}, r.list(`SELECT what FROM (
			SELECT min(seq) AS seq, 'tx' AS what FROM testsink.log GROUP BY commit_lsn
			UNION ALL SELECT seq, convert_from(prefix, 'UTF8') FROM testsink.message WHERE commit_lsn IS NULL) a ORDER BY seq`))
		r.drain()
		r.settled()
	})
}

func TestSchemaChanges(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		r := newRoad(t, pg, testsink.Config{Kind: testsink.KindBoth}, table, "CREATE TABLE k (a int PRIMARY KEY, b int)")
		r.serve()
		r.stream()
		step := 0
		do := func(changes int, statements ...string) {
			t.Helper()
			step++
			r.tx(step, changes, statements...)
			r.arrived(1, step)
			r.mirrored(3, step)
		}
		do(2, "INSERT INTO t VALUES (1, 'a')", "INSERT INTO k VALUES (1, 1)")
		do(2, "INSERT INTO t VALUES (2, 'b')", "ALTER TABLE t ADD w int", "INSERT INTO t VALUES (3, 'c', 7)")
		do(1, "ALTER TABLE t DROP v", "INSERT INTO t VALUES (4, 8)")
		do(1, "ALTER TABLE t ALTER w TYPE bigint", "UPDATE t SET w = 5000000000 WHERE id = 1")
		do(1, "ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (5, 9)")
		do(1, "CREATE SCHEMA other", "ALTER TABLE u SET SCHEMA other", "INSERT INTO other.u VALUES (6, 9)")
		do(2, "ALTER TABLE k REPLICA IDENTITY FULL", "INSERT INTO k VALUES (2, 2)", "UPDATE k SET b = 3 WHERE a = 1")
		do(2, "ALTER TABLE k ALTER b SET NOT NULL, ADD UNIQUE (b)", "ALTER TABLE k REPLICA IDENTITY USING INDEX k_b_key",
			"UPDATE k SET b = 30 WHERE a = 1", "DELETE FROM k WHERE a = 2")
		do(1, "ALTER TABLE k DROP CONSTRAINT k_pkey, ALTER a DROP NOT NULL, ADD PRIMARY KEY (b)", "INSERT INTO k VALUES (NULL, 4)")
		require.NoError(t, r.log().Once())
		r.drain()
	})
}

func TestSchemaDeclined(t *testing.T) {
	t.Parallel()
	r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{DeclineDestructive: true}, table)
	r.serve()
	r.stream()
	r.tx(1, 2, "INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t ADD w int", "INSERT INTO t VALUES (2, 'b', 1)")
	r.arrived(1, 1)
	r.mirrored(2, 3)
	r.tx(2, 1, "ALTER TABLE t DROP v", "INSERT INTO t VALUES (3, 1)")
	r.halts(core.HaltSchemaRefused)
}

// TestAddedWhileNobodyLooked: a column that was never told simply arrives.
func TestAddedWhileNobodyLooked(t *testing.T) {
	t.Parallel()
	r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Without: []string{"SCHEMA_CHANGE", "RESUME_STATE"}}, table)
	r.serve()
	r.stream()
	r.tx(1, 1, "INSERT INTO t VALUES (1, 'a')")
	r.arrived(1, 1)
	r.drain()
	r.source.Exec(t, "ALTER TABLE t ADD w int")
	r.tx(2, 1, "INSERT INTO t VALUES (2, 'b', 3)")
	r.stream()
	r.arrived(1, 2)
	r.mirrored(2, 4)
}

// TestCapabilities: what the sink is told to do without, it neither shows nor does.
func TestCapabilities(t *testing.T) {
	for _, config := range []testsink.Config{
		{Without: []string{"BATCH"}}, {Without: []string{"LARGE_TRANSACTION", "MESSAGE"}}, {Lib: true}, {Kind: testsink.KindLog},
	} {
		r := newRoad(t, pgtest.Shared(t, 17), config, table)
		r.serve()
		s := r.stream()
		r.tx(1, 1, "INSERT INTO t VALUES (1, 'a')")
		r.arrived(1, 1)
		caps := s.Status().Sink
		for _, name := range config.Without {
			require.NotContains(t, caps.Set.String(), name)
		}
		require.Equal(t, !config.Lib, caps.Set.Has(core.CapCheckpoint))
		require.Equal(t, !config.Lib, caps.Fences(core.FencingStored))
		require.True(t, caps.Fences(core.FencingInstance))
		require.Equal(t, config.Kind == testsink.KindLog, caps.Kind == core.AppendLog)
		if config.Lib {
			require.Equal(t, pipeline.ModeLib, s.Status().Mode)
		}
		r.drain()
	}
}

// TestDestinationAway: a destination that goes and comes back is waited for.
func TestDestinationAway(t *testing.T) {
	t.Parallel()
	own := pgtest.Own(t, 17, pgembed.Options{})
	r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Kind: testsink.KindBoth}, table)
	r.sink = own.Database(t)
	r.config.DSN = r.sink.DSN
	r.serve()
	r.stream()
	r.rows(1)
	r.arrived(1, 1)
	require.NoError(t, own.Kill())
	r.rows(2)
	r.until("it is being delivered", func() bool { return r.sidecar.Status().InFlight })
	require.NoError(t, own.Restart(t.Context()))
	r.arrived(1, 2)
	require.NoError(t, r.log().Once())
	r.mirrored(2, 8)
	r.drain()
	r.settled()
}
