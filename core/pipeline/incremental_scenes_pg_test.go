package pipeline_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestHotRowIsCopied: one row changes all the time, with a large column that no change
// touches, so that the stream never carries it. Each window of its chunk has changes of it. The
// copy ends all the same, and the column is there.
func TestHotRowIsCopied(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
		"insert into a select i, 0, repeat('x', 9000) from generate_series(1, 60) i", "create publication p for table a")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var changes atomic.Int64
	over := make(chan error, 1)
	conn := db.Conn(t)
	go func() {
		for ctx.Err() == nil {
			if _, err := conn.Exec(context.WithoutCancel(ctx), "update a set n = n + 1 where id = 35"); err != nil {
				over <- err
				return
			}
			changes.Add(1)
		}
		over <- nil
	}()
	sink := sinktest.NewMemory()
	sink.BeforeSnapshot = func(*core.SnapshotUnit) error { // windows are open meanwhile
		for at := changes.Load(); changes.Load() < at+20 && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	o := beside(db, sink)
	o.Copy.ChunkRows = 10
	r := start(t, o)
	copied(t, r, sink)
	stop()
	require.NoError(t, <-over)
	alike(t, r, db, sink, "a")
	carried := 0
	for _, u := range sink.SnapshotUnits() {
		for _, row := range u.Rows {
			if string(row.Value(0).Text) == "35" {
				carried++
				require.Len(t, row.Value(2).Text, 9000)
				require.NotEqual(t, "0", string(row.Value(1).Text))
			}
		}
	}
	require.Equal(t, 1, carried, "completed from its chunk, at the first try")
}

// TestIdleServerAfterASwitch: the WAL ends behind the header of a page that holds nothing, and
// nothing more is written. The stream never tells that position; an empty table is copied all
// the same.
func TestIdleServerAfterASwitch(t *testing.T) {
	pg := pgtest.Own(t, 17, pgembed.Options{Settings: map[string]string{"autovacuum": "off", "checkpoint_timeout": "1h"}})
	db := pg.Database(t)
	db.Exec(t, "create table a(id int primary key)", "create publication p for table a", "checkpoint")
	sink := sinktest.NewMemory()
	into := ""
	look := db.Conn(t)
	// The background writer tells every 15 s what runs, which moves the end on.
	var writer int
	require.NoError(t, look.QueryRow(t.Context(), "select pid from pg_stat_activity where backend_type = 'background writer'").Scan(&writer))
	require.NoError(t, syscall.Kill(writer, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(writer, syscall.SIGCONT) })
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if !u.First {
			return nil
		}
		if _, err := look.Exec(t.Context(), "select pg_switch_wal()"); err != nil {
			return err
		}
		return look.QueryRow(t.Context(), "select ((pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8 % 8192)::text").Scan(&into)
	}
	o := beside(db, sink)
	o.NoHeartbeat = true
	r := start(t, o)
	copied(t, r, sink)
	require.Equal(t, "40", into, "the end of the WAL is behind a header")
	db.Exec(t, "insert into a values (1)")
	alike(t, r, db, sink, "a")
}

// TestChunkAheadOfTheStream: a transaction that is committed with synchronous_commit off is
// visible long before it is streamed. A chunk that shows it is not delivered before it.
func TestChunkAheadOfTheStream(t *testing.T) {
	pg := pgtest.Own(t, 17, pgembed.Options{Settings: map[string]string{"autovacuum": "off", "wal_writer_delay": "3s", "bgwriter_delay": "10s", "fsync": "on"}})
	db := pg.Database(t)
	db.Exec(t, "create table a(id int primary key, v text)", "insert into a select i, 'old' from generate_series(1, 20) i", "create publication p for table a")
	sink := sinktest.NewMemory()
	conn, unflushed := db.Conn(t), false
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if !u.First {
			return nil
		}
		if _, err := conn.Exec(t.Context(), "set synchronous_commit = off; update a set v = 'new' where id <= 10"); err != nil {
			return err
		}
		return conn.QueryRow(t.Context(), "select pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()").Scan(&unflushed)
	}
	o := beside(db, sink)
	o.NoHeartbeat = true
	r := start(t, o)
	copied(t, r, sink)
	require.True(t, unflushed)
	alike(t, r, db, sink, "a")
	require.NotEmpty(t, sink.Transactions(), "the rows of a chunk came before a transaction that it shows")
	streamed := sink.Transactions()[0].EndLSN
	for _, u := range sink.SnapshotUnits() {
		require.True(t, len(u.Rows) == 0 || u.Expected >= streamed, "the rows of a chunk came before a transaction that it shows")
		for _, row := range u.Rows {
			require.Equal(t, "old", string(row.Value(1).Text), "what the stream has brought is left out")
		}
	}
}

// TestLargeTableIsReadSideBySide under load: ranges are cut ahead and read by several readers.
// Each row that nobody changes comes once.
func TestLargeTableIsReadSideBySide(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key, n int, v text)", "alter table a alter v set storage external",
		"insert into a select i, 0, repeat('x', 3000) from generate_series(1, 2000) i", "insert into a select i, 0, 'y' from generate_series(100001, 106000) i",
		"analyze a", "create publication p for table a")
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan int)
	conn := db.Conn(t)
	go func() { over <- load(ctx, conn, 1) }()
	sink := sinktest.NewMemory()
	o := beside(db, sink)
	o.Copy.Connections, o.Copy.ChunkRows = 4, 50
	o.Delivery.Mode = pipeline.ModeBatch
	r := start(t, o)
	copied(t, r, sink)
	stop()
	require.Positive(t, <-over)
	alike(t, r, db, sink, "a")
	came, apart := map[string]int{}, 0
	for _, u := range sink.SnapshotUnits() {
		if len(u.Token) == 0 || len(u.Rows) == 0 {
			continue
		}
		state, err := incremental.Decode(u.Token)
		require.NoError(t, err)
		if len(state.Tables[0].Ranges) > 4 {
			apart++
		}
		for _, row := range u.Rows {
			came[string(row.Value(0).Text)]++
		}
	}
	require.Positive(t, apart, "the table was not cut")
	for id := 100001; id <= 106000; id++ {
		require.Equal(t, 1, came[strconv.Itoa(id)], "%d", id)
	}
}
