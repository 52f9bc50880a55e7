package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestD10AddedUnderAnOpenWriter: a table is added to the publication while a transaction
// is open that has written it. What it wrote before is never streamed, what it writes after
// is; neither is lost.
func TestD10AddedUnderAnOpenWriter(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key, n int, v text)", "create table b(id int primary key, n int, v text)",
			"alter table b alter v set storage external", "create table leaf(id int primary key, n int, v text) partition by range (id)",
			"create table leaf1 partition of leaf for values from (0) to (1000)",
			"insert into b select i, 0, repeat('x', 3000) from generate_series(1, 20) i",
			"insert into leaf select i, 0, 'l' from generate_series(1, 20) i", "create publication p for table a")
		sink := sinktest.NewMemory()
		o := beside(db, sink)
		o.GuardInterval = 50 * time.Millisecond
		r := start(t, o)
		copied(t, r, sink)

		before, both := db.Conn(t), db.Conn(t)
		_, err := before.Exec(t.Context(), "begin; update b set n = 1 where id <= 3; delete from b where id = 4; update leaf1 set n = 1 where id = 1")
		require.NoError(t, err)
		_, err = both.Exec(t.Context(), "begin; update b set n = 2 where id in (11, 12, 13); insert into b values (30, 2, 'new')")
		require.NoError(t, err)
		db.Exec(t, "alter publication p add table b, leaf")
		_, err = both.Exec(t.Context(), "update b set n = 3 where id = 11; update b set id = 112 where id = 12; update b set id = 130 where id = 30")
		require.NoError(t, err)
		db.Exec(t, "insert into b values (40, 4, 'after')")
		require.Eventually(t, func() bool { return strings.Contains(strings.Join(held(sink, "b"), " "), "40") }, 20*time.Second, 10*time.Millisecond)
		units := len(sink.SnapshotUnits())
		for _, u := range sink.SnapshotUnits() {
			require.False(t, u.Relation != nil && u.Relation.Name == "b", "a writer of b is open")
		}
		_, err = before.Exec(t.Context(), "commit")
		require.NoError(t, err)
		_, err = both.Exec(t.Context(), "commit")
		require.NoError(t, err)
		alike(t, r, db, sink, "b", "leaf1")
		require.Eventually(t, func() bool {
			all := sink.SnapshotUnits()
			return all[len(all)-1].BackfillComplete && len(all) > units
		}, 20*time.Second, 10*time.Millisecond)
		last := sink.SnapshotUnits()[len(sink.SnapshotUnits())-1]
		require.EqualValues(t, 2, last.Generation, "another run")
		require.NotEqual(t, sink.SnapshotUnits()[0].RunID, last.RunID)
	})
}

// TestChunkOfAChangedTable: a table is altered after it was streamed and before it is copied.
// Added columns pass; with a sink that is told, it is told first.
func TestChunkOfAChangedTable(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key, v text)", "insert into a select i, 'x' from generate_series(1, 500) i",
		"create publication p for table a")
	sink := sinktest.NewMemory()
	sink.Caps.Set |= core.NewCapabilitySet(core.CapSchemaChange)
	o := beside(db, sink)
	o.Copy.ChunkRows = 50
	changed := false
	sink.AfterSnapshot = func(u *core.SnapshotUnit) error {
		if len(u.Rows) > 0 && !changed {
			changed = true
			db.Exec(t, "update a set v = 'seen' where id = 1", "alter table a add n int default 7")
		}
		return nil
	}
	r := start(t, o)
	copied(t, r, sink)
	db.Exec(t, "update a set v = 'y' where id % 50 = 1")
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(sink.Journal(), ","), "schema") }, 10*time.Second, 10*time.Millisecond)
}
