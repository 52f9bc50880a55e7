package testsink_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// wide is a table of seven columns; oneRow inserts a row of it, updates and deletes go to
// the same keys.
const (
	wide   = "CREATE TABLE t (id bigint PRIMARY KEY, a int, b bigint, c numeric(12,2), d timestamptz, e text, f uuid)"
	oneRow = "INSERT INTO t SELECT k, k %% 1000, k::bigint * 7919, (k %% 100000) / 100.0, now(), repeat(md5(k::text), 3), md5(k::text)::uuid; COMMIT;"
)

// BenchmarkBacklog drains a backlog that lies in the slot when the sidecar starts: the
// whole road, gRPC over a unix socket, sink and destination on the same machine. The
// figure is rows per second of wall clock from start to the last position.
func BenchmarkBacklog(b *testing.B) {
	const rows = 100_000
	loads := []struct{ name, schema, sql string }{
		{"one row a transaction", wide, fmt.Sprintf("DO $$ BEGIN FOR k IN 1..%d LOOP "+oneRow+" END LOOP; END $$", rows)},
		{"1000 rows a transaction", wide, fmt.Sprintf("DO $$ BEGIN FOR n IN 0..%d LOOP INSERT INTO t SELECT k, 1, 2, 3, now(), repeat(md5(k::text), 3), md5(k::text)::uuid FROM generate_series(n * 1000 + 1, n * 1000 + 1000) k; COMMIT; END LOOP; END $$", rows/1000-1)},
		{"updates of 1000 keys", "CREATE TABLE t (id int PRIMARY KEY, v int, e text); INSERT INTO t SELECT i, 0, md5(i::text) FROM generate_series(1, 1000) i",
			fmt.Sprintf("DO $$ BEGIN FOR k IN 1..%d LOOP UPDATE t SET v = k WHERE id = 1 + k %% 1000; COMMIT; END LOOP; END $$", rows)},
	}
	for _, load := range loads {
		for _, kind := range []testsink.Kind{testsink.KindMirror, testsink.KindLog, testsink.KindBoth} {
			b.Run(load.name+"/"+string(kind), func(b *testing.B) {
				for range b.N {
					b.StopTimer()
					pg := pgtest.Shared(b, 17)
					source, sinkDB := pg.Database(b), pg.Database(b)
					slot := "b_" + source.Name
					source.Exec(b, load.schema, "CREATE PUBLICATION p FOR ALL TABLES")
					options, stop := served(b, source, sinkDB, slot, kind)
					drain(b, options, 0) // makes the slot
					source.Exec(b, load.sql)
					b.StartTimer()
					began := time.Now()
					drain(b, options, rows)
					b.ReportMetric(rows/time.Since(began).Seconds(), "rows/s")
					b.StopTimer()
					stop()
				}
			})
		}
	}
}

func served(b *testing.B, source, sinkDB *pgtest.DB, slot string, kind testsink.Kind) (pipeline.Options, func()) {
	b.Helper()
	path := b.TempDir() + "/s"
	listener, err := net.Listen("unix", path)
	require.NoError(b, err)
	store := testsink.Open(testsink.Config{DSN: sinkDB.DSN, Kind: kind})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sink.ServeListener(ctx, listener, store.Sink(), store.Options()...) }()
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + path})
	require.NoError(b, err)
	return pipeline.Options{
			Source: wal.Options{DSN: source.DSN, Slot: slot, Publications: []string{"p"}}, Sink: remote, GoForwardOnly: true,
		}, func() {
			_ = remote.Close()
			cancel()
			require.NoError(b, <-ended)
			store.Close()
		}
}

// drain runs a sidecar until so many changes are durable.
func drain(b *testing.B, o pipeline.Options, changes uint64) {
	b.Helper()
	p, err := pipeline.New(o)
	require.NoError(b, err)
	done := make(chan error, 1)
	go func() { done <- p.Run(b.Context()) }()
	for p.Status().State != pipeline.StateStreaming || uint64(p.Status().Counters.Changes) < changes {
		time.Sleep(time.Millisecond)
	}
	p.Drain()
	require.NoError(b, <-done)
}
