package wal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestBootstrapLock(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		first, second := w.catalog(t), w.catalog(t)
		take := func(c *wal.Catalog, want bool) {
			t.Helper()
			held, err := c.Lock(bounded(t), w.options.Slot)
			require.NoError(t, err)
			require.Equal(t, want, held)
		}
		take(first, true)
		take(first, true) // again is no second lock
		take(second, false)
		held, err := second.Lock(bounded(t), "another_slot")
		require.NoError(t, err)
		require.True(t, held)
		require.NoError(t, second.Unlock(bounded(t)))
		require.NoError(t, first.Unlock(bounded(t)))
		take(second, true)

		// A lock that went with its connection is not taken again in silence.
		w.db.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database =
 (SELECT oid FROM pg_database WHERE datname = current_database())`)
		for range 2 {
			_, err = second.Slot(bounded(t), w.options.Slot)
			require.ErrorIs(t, err, wal.ErrConnectionLost)
		}
		require.Eventually(t, func() bool {
			held, err := first.Lock(bounded(t), w.options.Slot)
			return err == nil && held
		}, patience, 10*time.Millisecond)
	})
}

func TestCurrentLSNMoves(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		catalog := w.catalog(t)
		before, err := catalog.CurrentLSN(bounded(t))
		require.NoError(t, err)
		w.db.Exec(t, `INSERT INTO item VALUES (1, 'n')`)
		after, err := catalog.CurrentLSN(bounded(t))
		require.NoError(t, err)
		require.Greater(t, after, before)
	})
}

func TestDescribe(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		w.db.Exec(t, `CREATE SCHEMA "S x"`, `CREATE DOMAIN "S x".money_like AS numeric(10, 2)`, `CREATE DOMAIN deeper AS "S x".money_like`,
			`CREATE TYPE "S x"."Mood" AS ENUM ('a')`,
			`CREATE TABLE wide (a int, "B b" deeper, c "S x"."Mood", d text[], e "S x"."Mood"[], f point, g name, h varchar(3), PRIMARY KEY (h, a) INCLUDE (c))`)
		relation := &core.Relation{Schema: "public", Name: "wide"}
		conn := w.db.Conn(t)
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT 'wide'::regclass::oid`).Scan(&relation.OID))
		rows, err := conn.Query(t.Context(), `SELECT attname, atttypid FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 ORDER BY attnum`, relation.OID)
		require.NoError(t, err)
		for rows.Next() {
			var c core.Column
			require.NoError(t, rows.Scan(&c.Name, &c.TypeOID))
			relation.Columns = append(relation.Columns, c)
		}
		require.NoError(t, rows.Err())
		catalog := w.catalog(t)
		require.NoError(t, catalog.Describe(bounded(t), relation))
		oid := func(name string) (oid uint32) {
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT $1::text::regtype::oid`, name).Scan(&oid))
			return oid
		}
		type facts struct {
			name          string
			base, element uint32
			key           uint32
		}
		var got []facts
		for _, c := range relation.Columns {
			got = append(got, facts{c.TypeName, c.BaseTypeOID, c.ElementTypeOID, c.PrimaryKeyPosition})
		}
		require.Equal(t, []facts{
			{"integer", 0, 0, 2},
			{"public.deeper", oid("numeric"), 0, 0},
			{`"S x"."Mood"`, 0, 0, 0},
			{"text[]", 0, oid("text"), 0},
			{`"S x"."Mood"[]`, 0, oid(`"S x"."Mood"`), 0},
			{"point", 0, 0, 0},
			{"name", 0, 0, 0},
			{"character varying", 0, 0, 1},
		}, got)

		// A relation that is gone, and a type nobody knows, stay undescribed.
		gone := &core.Relation{OID: 4_000_000_000, Columns: []core.Column{{Name: "a", TypeOID: 4_000_000_001}}}
		require.NoError(t, catalog.Describe(bounded(t), gone))
		require.Equal(t, core.Column{Name: "a", TypeOID: 4_000_000_001}, gone.Columns[0])
	})
}

// A catalog that hangs costs the caller's second and nothing else: the lock and later
// calls are not harmed.
func TestDescribeIsBounded(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		catalog := w.catalog(t)
		held, err := catalog.Lock(bounded(t), w.options.Slot)
		require.NoError(t, err)
		require.True(t, held)
		relation := &core.Relation{OID: 1259, Columns: []core.Column{{Name: "oid", TypeOID: 26}}}
		blocker := w.db.Conn(t)
		tx, err := blocker.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `LOCK TABLE pg_catalog.pg_type IN ACCESS EXCLUSIVE MODE`)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		begun := time.Now()
		err = catalog.Describe(ctx, relation)
		require.Error(t, err)
		require.Less(t, time.Since(begun), 3*time.Second)
		_, isHalt := core.AsHalt(err)
		require.False(t, isHalt)
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, catalog.Describe(bounded(t), relation))
		require.Equal(t, "oid", relation.Columns[0].TypeName)
		held, err = catalog.Lock(bounded(t), w.options.Slot)
		require.NoError(t, err)
		require.True(t, held)
	})
}

// PinnedSettings is what snapshot connections are to use: each is known to the server.
func TestPinnedSettingsExist(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		conn := pg.Database(t).Conn(t)
		for _, s := range wal.PinnedSettings() {
			if pg.Major < s.Since {
				continue
			}
			_, err := conn.Exec(t.Context(), fmt.Sprintf(`SET %s = '%s'`, s.Name, s.Value))
			require.NoError(t, err, s.Name)
			var shown string
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT current_setting($1)`, s.Name).Scan(&shown))
			require.Equal(t, s.Value, shown, s.Name)
		}
	})
}

// TestDescribeWaitsForTheTransaction: what a transaction has made is described when it is
// visible, and without that in the end.
func TestDescribeWaitsForTheTransaction(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		maker, catalog := w.db.Conn(t), w.catalog(t)
		relation := func() *core.Relation {
			return &core.Relation{Columns: []core.Column{{Name: "a", TypeOID: 23}, {Name: "b", TypeOID: 23}}}
		}
		made := relation()
		var xid uint32
		_, err := maker.Exec(t.Context(), `BEGIN; CREATE TABLE made (a int, b int, PRIMARY KEY (b, a))`)
		require.NoError(t, err)
		require.NoError(t, maker.QueryRow(t.Context(), `SELECT 'made'::regclass::oid, pg_current_xact_id()::text::bigint`).Scan(&made.OID, &xid))
		described := make(chan error, 1)
		go func() { described <- catalog.DescribeOf(bounded(t), made, xid) }()
		looker, looks := w.db.Conn(t), map[time.Time]bool{}
		require.Eventually(t, func() bool {
			var at time.Time
			if looker.QueryRow(t.Context(), `SELECT query_start FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%transactionid = ''%'`).Scan(&at) == nil {
				looks[at] = true
			}
			return len(looks) > 1 || len(described) > 0 // it has looked, and looks again
		}, patience, time.Millisecond)
		_, err = maker.Exec(t.Context(), `COMMIT`)
		require.NoError(t, err)
		require.NoError(t, <-described)
		require.EqualValues(t, 2, made.Columns[0].PrimaryKeyPosition)
		require.EqualValues(t, 1, made.Columns[1].PrimaryKeyPosition)

		_, err = maker.Exec(t.Context(), `BEGIN; CREATE TABLE other (a int PRIMARY KEY)`)
		require.NoError(t, err)
		other := relation()
		require.NoError(t, maker.QueryRow(t.Context(), `SELECT 'other'::regclass::oid, pg_current_xact_id()::text::bigint`).Scan(&other.OID, &xid))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_ = catalog.DescribeOf(ctx, other, xid) // on a busy machine half of the time may not be enough
		require.Zero(t, other.Columns[0].PrimaryKeyPosition)
	})
}
