package chunks

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// reading is a reader under a role of its own.
func reading(t *testing.T, db *pgtest.DB, user string) *Reader {
	t.Helper()
	dsn, err := url.Parse(db.DSN)
	require.NoError(t, err)
	dsn.User = url.User(user)
	var system string
	var timeline uint32
	require.NoError(t, db.Conn(t).QueryRow(t.Context(), "select system_identifier::text, timeline_id from pg_control_system(), pg_control_checkpoint()").Scan(&system, &timeline))
	r := New(Options{
		Source: snapshot.Source{
			Open:     func(ctx context.Context) (*pgconn.PgConn, error) { return pgconn.Connect(ctx, dsn.String()) },
			Classify: func(_ context.Context, err error) error { return err },
		},
		Publications: []string{"p"}, SystemIdentifier: system, Timeline: timeline,
		Describe: func(context.Context, *core.Relation) {}, LockWait: 20 * time.Second,
	})
	require.NoError(t, r.connect(t.Context()))
	t.Cleanup(r.Close)
	return r
}

// columnReader makes a role that may SELECT the columns alone.
func columnReader(t *testing.T, db *pgtest.DB, grants ...string) string {
	t.Helper()
	role := "r_" + db.Name
	db.Exec(t, "create role "+role+" login")
	t.Cleanup(func() { db.Exec(t, "drop owned by "+role, "drop role "+role) })
	for _, grant := range grants {
		db.Exec(t, "grant select ("+grant+" to "+role)
	}
	return role
}

func published(t *testing.T, r *Reader, name string) incremental.Member {
	t.Helper()
	members, _, err := r.list(t.Context(), false)
	require.NoError(t, err)
	for _, m := range members {
		if m.Name == name {
			return m
		}
	}
	require.Fail(t, "not published", name)
	return incremental.Member{}
}

// begins runs a statement that a lock keeps waiting.
func begins(t *testing.T, db *pgtest.DB, sql string) (conn *pgx.Conn, over <-chan error) {
	t.Helper()
	conn = db.Conn(t)
	done := make(chan error, 1)
	pid := conn.PgConn().PID()
	go func() {
		_, err := conn.Exec(t.Context(), sql)
		done <- err
	}()
	look := db.Conn(t)
	require.Eventually(t, func() bool {
		var waits bool
		require.NoError(t, look.QueryRow(t.Context(), "select count(*) > 0 from pg_locks where pid = $1 and not granted", pid).Scan(&waits))
		return waits
	}, 20*time.Second, 5*time.Millisecond, "%s does not wait for the reader's lock", sql)
	return conn, done
}

// TestLockComesBeforeTheSnapshot, by whatever rights: a statement that rewrites or empties the
// table waits for the lock, and what was committed behind the lock is in the snapshot.
func TestLockComesBeforeTheSnapshot(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key, v text, secret text default 's')", "insert into a values (1, 'x'), (2, 'y')",
			"create table root(id int primary key, v text) partition by list (id)", "create table one partition of root for values in (1)",
			"create table rest partition of root default", "insert into root values (1, 'x'), (2, 'y')",
			"create publication p for table a, root with (publish_via_partition_root)")
		if pg.Major >= 15 {
			db.Exec(t, "alter publication p set table a (id, v), root")
		}
		columns := "id, v"
		if pg.Major < 15 {
			columns = "id, v, secret"
		}
		role := columnReader(t, db, columns+") on a", "id, v, tableoid) on root")
		for name, user := range map[string]string{"columns": role, "all": "postgres"} {
			for table, sql := range map[string]string{"a": "alter table a alter id type bigint", "one": "truncate one"} {
				t.Run(name+"/"+table, func(t *testing.T) {
					r := reading(t, db, user)
					of := map[string]string{"a": "a", "one": "root"}[table]
					m := published(t, r, of)
					for range 2 { // the second time the statement is there
						tables, err := r.lockTable(t.Context(), m)
						require.NoError(t, err)
						require.Equal(t, user != "postgres", tables != nil)
						conn, over := begins(t, db, sql)
						id := strconv.Itoa(100 + len(table))
						db.Exec(t, "begin; set local lock_timeout = 0; create table if not exists marks(id int); insert into marks values ("+id+"); commit")
						row, err := r.one(t.Context(), "select count(*), pg_current_snapshot() from pg_class where relname = 'marks'", 2)
						require.NoError(t, err)
						require.Equal(t, "1", row[0], "the snapshot is of behind the lock")
						if tables != nil {
							held, err := r.holds(t.Context(), m, tables)
							require.NoError(t, err)
							require.True(t, held[m.OID])
						}
						count, err := r.one(t.Context(), "select count(id) from "+of, 1)
						require.NoError(t, err)
						require.Equal(t, "2", count[0], "F4")
						require.NoError(t, conn.PgConn().CancelRequest(t.Context()))
						require.Error(t, <-over)
						require.NoError(t, r.exec(t.Context(), "rollback"))
						db.Exec(t, "drop table marks")
					}
				})
			}
		}
	})
}

// TestRewriteWaitsForTheRows: between the snapshot and the rows, and between the rows and the end
// of the chunk, the table is not rewritten either; then it is.
func TestRewriteWaitsForTheRows(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key, v text)", "insert into a select i, 'x' from generate_series(1, 20) i",
		"create table b(v text)", "insert into b select 'x' from generate_series(1, 20) i", "create publication p for table a, b")
	role := columnReader(t, db, "id, v) on a", "v) on b")
	for name, user := range map[string]string{"columns": role, "all": "postgres"} {
		t.Run(name, func(t *testing.T) {
			r := reading(t, db, user)
			a, b := published(t, r, "a"), published(t, r, "b")
			var over <-chan error
			r.o.Describe = func(_ context.Context, relation *core.Relation) {
				_, over = begins(t, db, "alter table "+relation.Name+" alter v type varchar(7) using v || 'z'")
			}
			found, err := r.Do(t.Context(), incremental.Job{Kind: incremental.JobChunk, Table: a, Rows: 100, Bytes: 1 << 20}, nil)
			require.NoError(t, err)
			require.NoError(t, <-over)
			require.Len(t, found.Read.Rows, 20, "F4")

			rows := 0
			found, err = r.Do(t.Context(), incremental.Job{Kind: incremental.JobCopy, Table: b, Rows: 5, Bytes: 1 << 20}, func(_ context.Context, piece Result) error {
				rows += len(piece.Read.Rows)
				select {
				case err := <-over:
					require.Fail(t, "the table was rewritten", "%v", err)
				default:
				}
				return nil
			})
			require.NoError(t, err)
			require.NoError(t, <-over)
			require.Equal(t, 20, rows+len(found.Read.Rows))
			db.Exec(t, "alter table a alter v type text using left(v, 1)", "alter table b alter v type text using left(v, 1)")
		})
	}
}

// TestLockOfAnAlteredTable: a statement that must be made anew takes its snapshot too early,
// and that is noticed; another table of the name is no table.
func TestLockOfAnAlteredTable(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key, v text)", "insert into a values (1, 'x')", "create publication p for table a")
		r := reading(t, db, columnReader(t, db, "id, v) on a"))
		m := published(t, r, "a")
		job := incremental.Job{Kind: incremental.JobChunk, Table: m, Rows: 10, Bytes: 1 << 20}
		chunk := func() (Result, error) { return r.Do(t.Context(), job, nil) }
		found, err := chunk()
		require.NoError(t, err)
		require.Len(t, found.Read.Rows, 1)

		l, err := r.prepared(t.Context(), m)
		require.NoError(t, err)
		db.Exec(t, "alter table a alter v set storage external") // between the two looks
		require.ErrorIs(t, r.lockBy(t.Context(), l), ErrAgain, "a snapshot that came before the lock goes unnoticed")
		require.NoError(t, r.exec(t.Context(), "rollback"))

		found, err = chunk()
		require.NoError(t, err, "the statement is made anew outside the transaction")
		require.Len(t, found.Read.Rows, 1)
		db.Exec(t, "alter table a rename to old", "create table a(id int primary key, v text)", "grant select (id, v) on a to "+"r_"+db.Name)
		_, err = chunk()
		require.True(t, errors.Is(err, ErrAgain), "%v", err)
		require.Empty(t, r.locks)
	})
}
