package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// initial are options of a pipeline that copies first.
func initial(db *pgtest.DB, sink core.Sink) pipeline.Options {
	o := options(db, slot(db), sink)
	o.GoForwardOnly, o.Snapshot = false, checkpoint.SnapshotInitial
	return o
}

// mirror is a sink whose rows can be looked at.
type mirror interface {
	Rows(schema, table string) []sinktest.Row
}

// held prints the rows that a sink holds of a table.
func held(m mirror, table string) []string {
	rows := []string{}
	for _, r := range m.Rows("public", table) {
		var columns []string
		for name, v := range r.Values {
			columns = append(columns, fmt.Sprintf("%s=%c%s", name, v.Kind, v.Text))
		}
		slices.Sort(columns)
		rows = append(rows, strings.Join(columns, " "))
	}
	slices.Sort(rows)
	return rows
}

// there prints the rows that the source holds of it.
func there(t testing.TB, db *pgtest.DB, table string) []string {
	t.Helper()
	conn := db.Conn(t)
	defer func() { _ = conn.Close(t.Context()) }()
	result, err := conn.Query(t.Context(), "select * from only "+table, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	rows := []string{}
	for result.Next() {
		var columns []string
		for i, v := range result.RawValues() {
			kind := 't'
			if v == nil {
				kind = 'n'
			}
			columns = append(columns, fmt.Sprintf("%s=%c%s", result.FieldDescriptions()[i].Name, kind, v))
		}
		slices.Sort(columns)
		rows = append(rows, strings.Join(columns, " "))
	}
	require.NoError(t, result.Err())
	slices.Sort(rows)
	return rows
}

// alike waits until the sink holds what the source holds. The source is read again each
// time: a writer that was ended in the middle of a statement may commit a moment later.
func alike(t *testing.T, r *running, db *pgtest.DB, m mirror, tables ...string) {
	t.Helper()
	for _, table := range tables {
		var want []string
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			if want = there(t, db, table); slices.Equal(want, held(m, table)) {
				break
			}
			require.Less(t, time.Since(began), patience,
				"%s: %d rows at the source, %d at the sink; %s", table, len(want), len(held(m, table)), r.Status().Reason)
		}
	}
}

// TestInitialCopy: a table with rows, an empty one, one without a key; then the stream.
func TestInitialCopy(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key, v text)", "insert into a select i, case when i % 7 > 0 then 'v' || i end from generate_series(1, 5000) i",
			"create table b(id int primary key)", "create table c(v text)", "insert into c values ('x'), ('x'), (null)", "analyze",
			"create publication p for all tables")
		sink := sinktest.NewMemory()
		sink.Caps.Limits = core.SinkLimits{RequestBytes: 40_000, PreferredBytes: 20_000}
		o := initial(db, sink)
		o.Copy = pipeline.Copying{Connections: 3, PartPages: 5}
		r := start(t, o)
		r.streaming(t)
		alike(t, r, db, sink, "a", "b", "c")
		requireUnits(t, sink.SnapshotUnits(), map[string]core.SnapshotReset{"a": core.ResetSnapshotRows, "b": core.ResetSnapshotRows, "c": core.ResetAll})
		done := sink.Completed()
		require.Len(t, done, 1)
		require.Len(t, done[0].Relations, 3)
		armed, first := sink.SnapshotUnits()[0], sink.SnapshotUnits()[1]
		require.Nil(t, armed.Relation, "the token comes before the slot")
		require.NotEmpty(t, armed.Token)
		require.Equal(t, armed.RunID, first.RunID)
		require.Equal(t, done[0].Checkpoint, first.LSN)
		status := r.Status().Copy
		require.Equal(t, pipeline.CopyDone, status.Phase)
		require.EqualValues(t, 5003, status.Rows)
		require.EqualValues(t, 5000, status.Tables[0].EstimatedRows)

		db.Exec(t, "insert into b values (1)", "update a set id = -id where id < 10", "delete from a where id = 4000", "truncate c")
		alike(t, r, db, sink, "a", "b", "c")
		r.Drain()
		require.NoError(t, r.wait(t))
		// A second run copies nothing.
		again := start(t, o)
		again.streaming(t)
		db.Exec(t, "insert into b values (2)")
		alike(t, again, db, sink, "b")
		require.Len(t, sink.Completed(), 1)
		require.Nil(t, again.Status().Copy)
	})
}

// requireUnits checks the flags of every table's units.
func requireUnits(t *testing.T, units []core.SnapshotUnit, tables map[string]core.SnapshotReset) {
	t.Helper()
	open, seen := map[string]bool{}, map[string]bool{}
	for i := range units {
		u := &units[i]
		if u.Relation == nil {
			require.Zero(t, i, "a unit without a table")
			continue
		}
		name := u.Relation.Name
		require.False(t, seen[name], "%s goes on after its last unit", name)
		require.Equal(t, !open[name], u.First, "%s", name)
		require.EqualValues(t, 1, u.Generation)
		require.Equal(t, units[0].RunID, u.RunID)
		require.NotZero(t, u.LSN)
		want := core.SnapshotReset(0)
		if u.First {
			want = tables[name]
		}
		require.Equal(t, want, u.Reset, "%s", name)
		open[name], seen[name] = true, u.Last
	}
	require.Len(t, seen, len(tables))
	for name, over := range seen {
		require.True(t, over, "%s has no last unit", name)
	}
}

// TestCopyUnderLoad: rows come, change, go and change their keys while they are copied.
func TestCopyUnderLoad(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
			"insert into a select i, 0, repeat('x', 3000) from generate_series(1, 2000) i", "create publication p for all tables")
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan int)
		const writers = 3
		for w := range writers {
			conn := db.Conn(t)
			go func() { over <- load(ctx, conn, w) }()
		}
		sink := sinktest.NewMemory()
		sink.BeforeSnapshot = func(*core.SnapshotUnit) error { time.Sleep(5 * time.Millisecond); return nil }
		o := initial(db, sink)
		o.Copy = pipeline.Copying{PartPages: 10}
		o.Delivery.Mode = pipeline.ModeBatch
		r := start(t, o)
		r.streaming(t)
		stop()
		for range writers {
			require.Positive(t, <-over)
		}
		alike(t, r, db, sink, "a")
	})
}

// load writes until ctx ends and says how many transactions it made.
func load(ctx context.Context, conn *pgx.Conn, seed int) (made int) {
	for i := seed; ctx.Err() == nil; i += 7 {
		row := i*31%2000 + 1
		sql := []string{
			fmt.Sprintf("update a set n = n + 1 where id = %d", row),
			fmt.Sprintf("delete from a where id = %d", row),
			fmt.Sprintf("insert into a values (%d, -1, repeat('y', 3000)) on conflict do nothing", 10_000+i),
			fmt.Sprintf("update a set id = id + 1000000 where id = %d", row),
			fmt.Sprintf("update a set v = repeat('z', 3000) where id = %d", row),
		}[i%5]
		if _, err := conn.Exec(ctx, sql); err == nil {
			made++
		}
	}
	return made
}

// greeted counts the sessions that begin.
type greeted struct {
	*sinktest.Memory
	sessions atomic.Int64
}

func (g *greeted) Capabilities(ctx context.Context) (core.Capabilities, error) {
	g.sessions.Add(1)
	return g.Memory.Capabilities(ctx)
}

// TestCopyAndStreamAreOneSession: the end of a short copy cuts off no question that is
// asked meanwhile, and with it the connection that holds the bootstrap lock.
func TestCopyAndStreamAreOneSession(t *testing.T) {
	pg := pgtest.Shared(t, 17)
	for range 10 {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key)", "create publication p for all tables")
		sink := &greeted{Memory: sinktest.NewMemory()}
		r := start(t, initial(db, sink))
		r.streaming(t)
		require.EqualValues(t, 1, sink.sessions.Load())
		r.Drain()
		require.NoError(t, r.wait(t))
	}
}
