package snapshot_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestKeys(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, scenes["keys"].setup...)
		db.Exec(t, `CREATE TABLE k8 (a int, b int NOT NULL)`, `CREATE UNIQUE INDEX k8a ON k8 (a)`, `CREATE UNIQUE INDEX k8p ON k8 (b) WHERE a > 1`,
			`CREATE UNIQUE INDEX k8b ON k8 (b)`, // no sink knows of it
			`ALTER TABLE k8 REPLICA IDENTITY FULL`)
		tables, err := snapshot.Tables(bounded(t), plain(t, wal.Options{DSN: db.DSN}), []string{"p"})
		require.NoError(t, err)
		keys := map[string][]int{}
		for _, table := range tables {
			keys[table.Relation.Name] = table.Key
			require.Equal(t, table.HasKey(), table.KeyIndex != 0)
		}
		require.Equal(t, map[string][]int{
			"k1": {1, 0}, "k2": {0}, "k3": {0}, "k4": nil, "k5": nil, "k6": nil, "k7": nil, "k8": nil,
		}, keys)
	})
}

func TestConflictingColumns(t *testing.T) {
	for _, major := range []int{15, 18} {
		db := pgtest.Shared(t, major).Database(t)
		db.Exec(t, `CREATE TABLE t (a int PRIMARY KEY, b int, c int)`, `CREATE PUBLICATION p FOR TABLE t (a, b)`, `CREATE PUBLICATION q FOR TABLE t`)
		_, err := snapshot.Tables(bounded(t), plain(t, wal.Options{DSN: db.DSN}), []string{"p", "q"})
		halt, ok := core.AsHalt(err)
		require.True(t, ok, "%v", err)
		require.Equal(t, core.HaltPublicationConflict, halt.Code)
		require.Equal(t, "public.t", halt.Relation)
	}
}

// TestRightsAreSeen: policies and missing rights are noticed before anything is read.
func TestRightsAreSeen(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		role := "r_" + db.Name
		db.Exec(t, `CREATE ROLE `+role+` LOGIN`, `CREATE TABLE guarded (a int)`, `ALTER TABLE guarded ENABLE ROW LEVEL SECURITY`,
			`CREATE TABLE open (a int, b int)`, `CREATE TABLE partly (a int, b int)`, `CREATE TABLE closed (a int)`,
			`CREATE TABLE root (a int) PARTITION BY LIST (a)`, `CREATE TABLE leaf PARTITION OF root DEFAULT`,
			`INSERT INTO root VALUES (1), (2)`, `INSERT INTO partly VALUES (1, 2)`,
			`GRANT SELECT ON guarded, open, root TO `+role, `GRANT SELECT (a) ON partly TO `+role,
			`CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root)`)
		t.Cleanup(func() { db.Exec(t, `DROP OWNED BY `+role, `DROP ROLE `+role) })
		conn := plain(t, wal.Options{DSN: db.DSN})
		_, err := conn.Exec(bounded(t), `SET ROLE `+role).ReadAll()
		require.NoError(t, err)
		tables, err := snapshot.Tables(bounded(t), conn, []string{"p"})
		require.NoError(t, err)
		type rights struct{ rowSecurity, readable bool }
		seen := map[string]rights{}
		for _, table := range tables {
			seen[table.Relation.Name] = rights{table.RowSecurity, table.Readable}
			if table.Relation.Name == "root" {
				require.Len(t, copied(t, conn, table, 1), 2, "a leaf that may not be read is read through its root")
			}
		}
		require.Equal(t, map[string]rights{
			"guarded": {true, true}, "open": {false, true}, "partly": {false, false}, "closed": {false, false}, "root": {false, true},
		}, seen)
	})
}
