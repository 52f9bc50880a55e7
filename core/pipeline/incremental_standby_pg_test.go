package pipeline_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// replica is a standby of a server, and its copy of a database.
func replica(t *testing.T, db *pgtest.DB) *pgtest.DB {
	t.Helper()
	standby, err := db.Server.Standby(t.Context(), map[string]string{"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Close()) })
	return &pgtest.DB{Server: &pgtest.Server{Server: standby, Major: db.Server.Major}, Name: db.Name, DSN: standby.DSN(db.Name)}
}

// helped runs the primary's part in making a slot at the standby until the stream has begun,
// and the primary keeps what the slot decodes with.
func helped(t *testing.T, r *running, primary *pgtest.DB) {
	t.Helper()
	require.Eventually(t, func() bool {
		primary.Exec(t, "select pg_log_standby_snapshot()")
		var kept bool
		err := primary.Conn(t).QueryRow(t.Context(), "select catalog_xmin is not null from pg_replication_slots where slot_name = 'standby'").Scan(&kept)
		return err == nil && kept && r.Status().State == pipeline.StateStreaming
	}, patience, 50*time.Millisecond, "%s", r.Status().Reason)
}

// TestIncrementalCopyFromAStandby: stream and chunks come from a standby, under load at the
// primary, over restarts of the sidecar, with a table that is added under an open writer. A
// table without a key is refused.
func TestIncrementalCopyFromAStandby(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, shared *pgtest.Server) {
		if shared.Major < 16 {
			return // no stream from a standby
		}
		t.Parallel()
		db := pgtest.Own(t, shared.Major, pgembed.Options{}).Database(t)
		db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
			"insert into a select i, 0, repeat('x', 3000) from generate_series(1, 2000) i",
			"create table b(id int primary key, n int, v text)", "insert into b select i, 0, repeat('x', 3000) from generate_series(1, 20) i",
			"create table c(id int primary key, n int, v text)", "insert into c values (1, 0, 'before')",
			"create table keyless(v text)", "create publication p for table a")
		from := replica(t, db)
		sink := sinktest.NewMemory()
		loaded := make(chan struct{})
		sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
			if len(u.Rows) > 0 {
				<-loaded
				time.Sleep(2 * time.Millisecond)
			}
			return nil
		}
		o := beside(from, sink)
		o.GuardInterval = 50 * time.Millisecond
		r := start(t, o)
		helped(t, r, db)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan int)
		conn := db.Conn(t)
		go func() { over <- load(ctx, conn, 1) }()
		require.Eventually(t, func() bool {
			var begun bool
			err := db.Conn(t).QueryRow(t.Context(), "select exists (select from a where n > 0)").Scan(&begun)
			return err == nil && begun
		}, patience, 10*time.Millisecond)
		close(loaded)
		for range 2 {
			units := len(sink.SnapshotUnits())
			require.Eventually(t, func() bool { return len(sink.SnapshotUnits()) > units+3 || completions(sink) > 0 }, patience, 5*time.Millisecond)
			r.cancel()
			require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
			r = start(t, o)
		}
		copied(t, r, sink)
		stop()
		require.Positive(t, <-over)
		alike(t, r, db, sink, "a")

		addedUnderAWriter(t, r, db, sink)
		addedUnderTheNewest(t, r, db, sink)

		db.Exec(t, "insert into keyless values ('x')", "alter publication p add table keyless")
		halt := halted(t, r, core.HaltConfigInvalid)
		require.Equal(t, "public.keyless", halt.Relation)
		require.Contains(t, halt.Detail, "standby")
		db.Exec(t, "alter publication p drop table keyless")
		again := start(t, o)
		again.streaming(t)
		_, err := again.RequestCopy(t.Context(), []string{"b"}, false)
		require.NoError(t, err)
		completedTimes(t, again, sink, 4)
		alike(t, again, db, sink, "a", "b", "c")
	})
}

// addedUnderAWriter adds table b to the publication while a transaction is open on the primary
// that has written it.
func addedUnderAWriter(t *testing.T, r *running, db *pgtest.DB, sink *sinktest.Memory) {
	t.Helper()
	writer := db.Conn(t)
	_, err := writer.Exec(t.Context(), "begin; update b set n = 1 where id <= 3; delete from b where id = 4")
	require.NoError(t, err)
	db.Exec(t, "alter publication p add table b", "insert into b values (40, 4, 'after')")
	require.Eventually(t, func() bool {
		c := r.Status().Copy
		return strings.Contains(strings.Join(held(sink, "b"), " "), "40") && c != nil && strings.Contains(c.Waiting, "public.b")
	}, patience, 10*time.Millisecond)
	untouched(t, sink, "b")
	_, err = writer.Exec(t.Context(), "update b set id = 112 where id = 12; commit")
	require.NoError(t, err)
	completedTimes(t, r, sink, 2)
	alike(t, r, db, sink, "b")
}

// addedUnderTheNewest adds table c while a transaction is open that had written it before, and
// that no transaction which has ended is newer than.
func addedUnderTheNewest(t *testing.T, r *running, db *pgtest.DB, sink *sinktest.Memory) {
	t.Helper()
	altering, writer := db.Conn(t), db.Conn(t)
	_, err := altering.Exec(t.Context(), "begin; alter publication p add table c")
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), "begin; insert into c values (2, 0, 'open')")
	require.NoError(t, err)
	_, err = altering.Exec(t.Context(), "commit")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		c := r.Status().Copy
		return completions(sink) > 2 || c != nil && strings.Contains(c.Waiting, "public.c")
	}, patience, 10*time.Millisecond)
	untouched(t, sink, "c")
	_, err = writer.Exec(t.Context(), "commit")
	require.NoError(t, err)
	completedTimes(t, r, sink, 3)
	alike(t, r, db, sink, "c")
}

// untouched: nothing of the table was copied.
func untouched(t *testing.T, sink *sinktest.Memory, table string) {
	t.Helper()
	for _, u := range sink.SnapshotUnits() {
		require.False(t, u.Relation != nil && u.Relation.Name == table, "a writer of %s is open", table)
	}
}

// TestIncrementalCopyOverAPromotion: the standby is started again in the middle of the copy,
// and promoted later; the copy goes on where it was, from what is the primary then.
func TestIncrementalCopyOverAPromotion(t *testing.T) {
	db := pgtest.Own(t, 17, pgembed.Options{}).Database(t)
	db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
		"insert into a select i, 0, repeat('x', 3000) from generate_series(1, 1000) i", "create publication p for table a")
	from := replica(t, db)
	sink := sinktest.NewMemory()
	open := gated(sink, 2)
	o := beside(from, sink)
	o.Copy.ChunkRows = 10
	r := start(t, o)
	helped(t, r, db)
	more := func() {
		t.Helper()
		units := countRows(sink, 0)
		require.Eventually(t, func() bool { return countRows(sink, 0) > units+1 }, patience, 5*time.Millisecond, "%s", r.Status().Reason)
		require.Zero(t, completions(sink))
	}
	more()
	require.NoError(t, from.Server.Stop())
	db.Exec(t, "update a set n = 1 where id % 3 = 0", "update a set id = id + 10000 where id % 7 = 0")
	require.NoError(t, from.Server.Restart(t.Context()))
	more()
	require.NoError(t, db.Server.Stop())
	from.Exec(t, "select pg_promote()", "update a set n = 2 where id % 5 = 0", "update a set id = id + 20000 where id % 11 = 0")
	halted(t, r, core.HaltTimelineChanged)
	require.Zero(t, completions(sink))
	o.AcceptTimeline = 2
	open()
	again := start(t, o)
	copied(t, again, sink)
	alike(t, again, from, sink, "a")
}
