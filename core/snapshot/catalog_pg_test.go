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

// TestRightsAreSeen: policies and missing rights are noticed before anything is read, and what
// they are told to be mended by mends them.
func TestRightsAreSeen(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		role := "r_" + db.Name
		db.Exec(t, `CREATE ROLE `+role+` LOGIN`, `CREATE TABLE guarded (a int)`, `ALTER TABLE guarded ENABLE ROW LEVEL SECURITY`,
			`CREATE TABLE open (a int, b int)`, `CREATE TABLE partly (a int, b int)`, `CREATE TABLE closed (a int)`,
			`CREATE TABLE root (a int) PARTITION BY LIST (a)`, `CREATE TABLE leaf PARTITION OF root DEFAULT`,
			`CREATE TABLE columns (a int) PARTITION BY LIST (a)`, `CREATE TABLE one PARTITION OF columns DEFAULT`,
			`CREATE SCHEMA "s.x"`, `CREATE TABLE "s.x".hidden (a int)`, `GRANT SELECT ON "s.x".hidden TO `+role,
			`INSERT INTO root VALUES (1), (2)`, `INSERT INTO columns VALUES (1), (2)`, `INSERT INTO partly VALUES (1, 2)`,
			`GRANT SELECT ON guarded, open, root TO `+role, `GRANT SELECT (a) ON partly, columns TO `+role,
			`CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root)`)
		t.Cleanup(func() { db.Exec(t, `DROP OWNED BY `+role, `DROP ROLE `+role) })
		conn := plain(t, wal.Options{DSN: db.DSN})
		_, err := conn.Exec(bounded(t), `SET ROLE `+role).ReadAll()
		require.NoError(t, err)
		tables, err := snapshot.Tables(bounded(t), conn, []string{"p"})
		require.NoError(t, err)
		quoted := `"` + role + `"`
		missing := map[string][]string{
			"partly": {`GRANT SELECT ("b") ON "public"."partly" TO ` + quoted}, "closed": {`GRANT SELECT ON "public"."closed" TO ` + quoted},
			"columns": {`GRANT SELECT (tableoid) ON "public"."columns" TO ` + quoted}, "hidden": {`GRANT USAGE ON SCHEMA "s.x" TO ` + quoted},
		}
		for _, table := range tables {
			name := table.Relation.Name
			require.Equal(t, name == "guarded", table.RowSecurity)
			require.Equal(t, missing[name], table.Missing, name)
			for _, grant := range table.Missing {
				require.ErrorContains(t, table.Refusal(), grant)
				db.Exec(t, grant)
			}
		}
		tables, err = snapshot.Tables(bounded(t), conn, []string{"p"})
		require.NoError(t, err)
		for _, table := range tables {
			require.Empty(t, table.Missing)
			if name := table.Relation.Name; name != "guarded" {
				rows := map[string]int{"root": 2, "columns": 2, "partly": 1}[name]
				require.Len(t, copied(t, conn, table, 1), rows, "a leaf that may not be read is read through its root")
			}
		}
	})
}
