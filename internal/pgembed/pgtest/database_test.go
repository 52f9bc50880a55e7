package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

const startReplication = `START_REPLICATION SLOT busy LOGICAL 0/0 (proto_version '1', publication_names 'pub')`

// leave makes all that keeps a database from being dropped: a slot in use by a
// walsender, a prepared transaction, a subscription, an open connection. The
// connections outlive the case: they are closed at the end of outer.
func leave(t, outer *testing.T, db *pgtest.DB) {
	t.Helper()
	db.Exec(t,
		"CREATE TABLE a (id int PRIMARY KEY)",
		"CREATE PUBLICATION pub FOR TABLE a",
		"SELECT pg_create_logical_replication_slot('busy', 'pgoutput')",
		"SELECT pg_create_logical_replication_slot('idle', 'pgoutput')",
	)
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	outer.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "BEGIN; INSERT INTO a VALUES (1); PREPARE TRANSACTION 'it''s'", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE SUBSCRIPTION sub CONNECTION 'host=/nowhere dbname=x' PUBLICATION pub WITH (connect = false)")
	require.NoError(t, err)

	busy, err := pgconn.Connect(t.Context(), db.ReplicationDSN())
	require.NoError(t, err)
	outer.Cleanup(func() { _ = busy.Close(context.Background()) })
	busy.Frontend().SendQuery(&pgproto3.Query{String: startReplication})
	require.NoError(t, busy.Frontend().Flush())
	require.Eventually(t, func() bool {
		var active bool
		err := conn.QueryRow(t.Context(), "SELECT active FROM pg_replication_slots WHERE slot_name = 'busy'").Scan(&active)
		return err == nil && active
	}, 10*time.Second, 20*time.Millisecond)
}

// A database goes at its test's end, whatever the test left in it.
func TestDatabaseIsDroppedWithAllInIt(t *testing.T) {
	pgtest.ForEach(t, func(outer *testing.T, pg *pgtest.Server) {
		var name string
		outer.Run("case", func(t *testing.T) {
			db := pg.Database(t)
			name = db.Name
			leave(t, outer, db)
		})
		conn, err := pgx.Connect(outer.Context(), pg.DSN("postgres"))
		require.NoError(outer, err)
		defer conn.Close(context.Background())
		for _, sql := range []string{
			"SELECT count(*) FROM pg_database WHERE datname = $1",
			"SELECT count(*) FROM pg_replication_slots WHERE database = $1",
			"SELECT count(*) FROM pg_prepared_xacts WHERE database = $1",
		} {
			var n int
			require.NoError(outer, conn.QueryRow(outer.Context(), sql, name).Scan(&n))
			require.Zero(outer, n, sql)
		}
	})
}

// Two databases of one test are two, and names that are long or odd do.
func TestDatabasesAreSeparate(t *testing.T) {
	majors, err := pgtest.Majors()
	require.NoError(t, err)
	pg := pgtest.Shared(t, majors[len(majors)-1])
	t.Run("a name with 'quotes' and \"more\", and longer than any name in a database can be, by far", func(t *testing.T) {
		one, two := pg.Database(t), pg.Database(t)
		require.NotEqual(t, one.Name, two.Name)
		require.LessOrEqual(t, len(one.Name), 63)
		one.Exec(t, "CREATE TABLE a (id int)")
		two.Exec(t, "CREATE TABLE a (id int)")
		var current string
		require.NoError(t, two.Conn(t).QueryRow(t.Context(), "SELECT current_database()").Scan(&current))
		require.Equal(t, two.Name, current)
	})
}
