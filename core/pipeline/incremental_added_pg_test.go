package pipeline_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// d10Writers are transactions that are open while the table is added: what each writes
// before, and what after. Only what is written after is ever streamed.
var d10Writers = []struct{ name, before, after string }{
	{"before", "update b set n = 1 where id <= 3; delete from b where id = 4; insert into b values (31, 1, 'new')", "select 1"},
	{"after", "select pg_current_xact_id()", "update b set n = 4 where id = 5; delete from b where id = 6; update b set id = 107 where id = 7; insert into b values (32, 4, 'new')"},
	{"both", "update b set n = 2 where id in (11, 12, 13); insert into b values (30, 2, 'new')",
		"update b set n = 3 where id = 11; update b set id = 112 where id = 12; update b set id = 130 where id = 30; delete from b where id = 13"},
	{"swapped", "delete from b where id = 15", "update b set id = 15 where id = 14"},
	{"leaf", "update leaf1 set n = 1 where id = 1; insert into leaf1 values (31, 1, 'new')", "update leaf1 set id = 131 where id = 31; delete from leaf1 where id = 2"},
}

const d10Prepared = "update b set n = 5 where id = 17; update b set id = 118 where id = 18; delete from b where id = 19; insert into leaf1 values (40, 5, 'new')"

// TestD10AddedUnderAnOpenWriter: a table is added to the publication while transactions are
// open that have written it, or a partition of it, or have nothing but begun; one of them is
// prepared. What they wrote before is never streamed, what they write after is; neither is
// lost. The copy waits for them, and says for whom.
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

		open := make([]*pgx.Conn, len(d10Writers))
		for i, w := range d10Writers {
			open[i] = db.Conn(t)
			runs(t, open[i], "begin; "+w.before)
		}
		gid := "d10 " + db.Name
		both := db.Conn(t)
		runs(t, both, "begin; "+d10Prepared)
		db.Exec(t, "alter publication p add table b, leaf")
		runs(t, both, "update b set n = 6 where id = 20; prepare transaction '"+gid+"'")
		for i, w := range d10Writers {
			runs(t, open[i], w.after)
		}
		db.Exec(t, "insert into b values (41, 4, 'after')")
		require.Eventually(t, func() bool { return strings.Contains(strings.Join(held(sink, "b"), " "), "41") }, patience, 10*time.Millisecond)
		for i := range d10Writers {
			notCopied(t, sink, "b", "leaf1")
			runs(t, open[i], "commit")
		}
		require.Eventually(t, func() bool {
			c := r.Status().Copy
			return c != nil && strings.Contains(c.Waiting, gid)
		}, patience, 10*time.Millisecond, "the prepared one is named")
		notCopied(t, sink, "b", "leaf1")
		units := len(sink.SnapshotUnits())
		db.Exec(t, "commit prepared '"+gid+"'")
		alike(t, r, db, sink, "b", "leaf1")
		require.Eventually(t, func() bool {
			all := sink.SnapshotUnits()
			return all[len(all)-1].BackfillComplete && len(all) > units
		}, patience, 10*time.Millisecond)
		alike(t, r, db, sink, "b", "leaf1")
		last := sink.SnapshotUnits()[len(sink.SnapshotUnits())-1]
		require.EqualValues(t, 2, last.Generation, "another run")
		require.NotEqual(t, sink.SnapshotUnits()[0].RunID, last.RunID)
	})
}

func runs(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
}

// notCopied requires that no row of the tables has come but by the stream.
func notCopied(t *testing.T, sink *sinktest.Memory, tables ...string) {
	t.Helper()
	for _, u := range sink.SnapshotUnits() {
		require.False(t, u.Relation != nil && slices.Contains(tables, u.Relation.Name), "a writer is open")
	}
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
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(sink.Journal(), ","), "schema") }, patience, 10*time.Millisecond)
}
