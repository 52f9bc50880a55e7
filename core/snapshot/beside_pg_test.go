package snapshot_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestTablesBesideTakesNoOtherLock: who holds a lock on one table must not wait for another
// one, or an application that locks both in the other order is ended as a deadlock's victim.
func TestTablesBesideTakesNoOtherLock(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)",
			"CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE leaf PARTITION OF root DEFAULT",
			"CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root)")
		application, reader := db.Conn(t), plain(t, wal.Options{DSN: db.DSN})
		_, err := application.Exec(t.Context(), "BEGIN; LOCK TABLE b, root IN ACCESS EXCLUSIVE MODE")
		require.NoError(t, err)
		_, err = reader.Exec(bounded(t), "BEGIN; SET LOCAL lock_timeout = 100; LOCK TABLE a IN ACCESS SHARE MODE").ReadAll()
		require.NoError(t, err)
		var oid uint32
		require.NoError(t, db.Conn(t).QueryRow(t.Context(), "SELECT 'a'::regclass::oid").Scan(&oid))
		tables, err := snapshot.TablesBeside(bounded(t), reader, []string{"p"}, oid)
		require.NoError(t, err)
		require.Len(t, tables, 3)
		require.Len(t, tables[0].Leaves, 1)
		require.Empty(t, tables[1].Leaves)
		_, err = snapshot.Tables(bounded(t), reader, []string{"p"})
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused, "there was no lock to wait for")
		require.Equal(t, "55P03", refused.Code)
	})
}
