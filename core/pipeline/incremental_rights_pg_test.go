package pipeline_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// as is a DSN for another role.
func as(t *testing.T, db *pgtest.DB, role string) string {
	t.Helper()
	dsn, err := url.Parse(db.DSN)
	require.NoError(t, err)
	dsn.User = url.User(role)
	return dsn.String()
}

// TestIncrementalCopyWithColumnRights: a role that may SELECT the published columns alone is
// refused with what it lacks, before anything is made, and copies once it has that, while the
// tables are altered and written.
func TestIncrementalCopyWithColumnRights(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		role, columns, list := "c_"+db.Name, "id, v, secret", ""
		if pg.Major >= 15 {
			columns, list = "id, v", " (id, v)"
		}
		db.Exec(t, "create role "+role+" login replication", "create table a(id int primary key, v text, secret text)",
			"insert into a select i, 'v' || i, 'secret' from generate_series(1, 1000) i",
			"create table b(v text, secret text)", "insert into b select 'v' || i from generate_series(1, 300) i",
			"create publication p for table a"+list+", b", "grant select (id) on a to "+role, "grant select (v, secret) on b to "+role)
		t.Cleanup(func() { db.Exec(t, "drop owned by "+role, "drop role "+role) })
		sink := sinktest.NewMemory()
		o := beside(db, sink)
		o.Source.DSN = as(t, db, role)
		lacking := `"v"`
		if pg.Major < 15 {
			lacking = `"v", "secret"`
		}
		halt := halted(t, start(t, o), core.HaltSourceRights)
		require.Contains(t, halt.Error(), fmt.Sprintf(`GRANT SELECT (%s) ON "public"."a" TO "%s"`, lacking, role))
		require.Zero(t, slots(t, db))

		db.Exec(t, "grant select ("+columns+") on a to "+role)
		units := 0
		sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
			if units++; len(u.Rows) > 0 && units%3 == 0 {
				db.Exec(t, fmt.Sprintf("alter table a alter secret set default '%d'", units),
					fmt.Sprintf("update a set v = 'w' where id = %d", units), fmt.Sprintf("insert into b values ('w%d')", units))
			}
			return nil
		}
		r := start(t, o)
		copied(t, r, sink)
		db.Exec(t, "update a set v = 'last' where id = 1")
		require.Eventually(t, func() bool {
			want := map[string]string{}
			rows, err := db.Conn(t).Query(t.Context(), "select id::text, v from a union all select v, v from b")
			require.NoError(t, err)
			for rows.Next() {
				var id, v string
				require.NoError(t, rows.Scan(&id, &v))
				want[id] = v
			}
			have := map[string]string{}
			for _, row := range sink.Rows("public", "a") {
				have[string(row.Values["id"].Text)] = string(row.Values["v"].Text)
				_, leaked := row.Values["secret"]
				require.Equal(t, pg.Major < 15, leaked)
			}
			for _, row := range sink.Rows("public", "b") {
				have[string(row.Values["v"].Text)] = string(row.Values["v"].Text)
			}
			return fmt.Sprint(want) == fmt.Sprint(have)
		}, patience, 50*time.Millisecond, "%s", r.Status().Reason)
	})
}
