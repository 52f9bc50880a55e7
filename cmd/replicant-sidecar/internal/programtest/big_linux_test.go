package programtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// big asks for the test of a transaction of 1 GB, which takes minutes and 10 GB of disk;
// `make big` sets it.
const big = "REPLICANT_BIG"

// X08: one transaction of about 1 GB passes in less than 256 MiB of the sidecar's memory,
// whole after its commit and streamed while it is in progress, and what comes after it
// follows.
func TestX08OneHugeTransaction(t *testing.T) {
	if os.Getenv(big) == "" {
		t.Skip("NOT RUN: set " + big + "=1, or run `make big`")
	}
	const (
		rows      = 3_000_000
		memoryMax = 256 << 20
		enough    = 20 * time.Minute
	)
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table x08(id int primary key, t text)", "create table other(id int primary key)",
			"create publication shop for table x08, other")
		for _, streaming := range []string{"off", "on"} {
			t.Setenv("REPLICANT_STREAMING", streaming)
			spill := t.TempDir()
			t.Setenv("REPLICANT_SPILL_MAX", "2GiB")
			t.Setenv("REPLICANT_SPILL_DIR", spill)
			path := filepath.Join(t.TempDir(), "log")
			p := launch(t, db, "run", "--go-forward-only", "--", os.Args[0], play, "count", path)
			p.says("streaming")
			ctx, cancel := context.WithTimeout(t.Context(), enough)
			conn := db.Conn(t)
			began := time.Now()
			_, err := conn.Exec(ctx, fmt.Sprintf("insert into x08 select i, repeat(md5(i::text), 10) from generate_series(1, %d) i", rows))
			require.NoError(t, err)
			committed := time.Now()
			_, err = conn.Exec(ctx, "insert into other values (7)")
			require.NoError(t, err)
			var stored []line
			require.Eventually(t, func() bool {
				all, err := readLines(path)
				require.NoError(t, err)
				stored = nil
				for _, l := range all {
					if len(l.IDs) > 0 {
						stored = append(stored, l)
					}
				}
				return len(stored) == 2
			}, enough, 50*time.Millisecond)
			took := time.Since(committed)
			cancel()
			require.Equal(t, []string{fmt.Sprintf("%d rows", rows)}, stored[0].IDs)
			require.Equal(t, []string{"7"}, stored[1].IDs)
			requireNoFiles(t, spill)
			p.signal(syscall.SIGTERM)
			require.Zero(t, p.exit())
			peak := p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
			fmt.Printf("Postgres %d, streaming %-3s: %d rows written in %s, at the sink %s after the commit, sidecar's peak memory %d MiB\n",
				pg.Major, streaming, rows, committed.Sub(began).Round(time.Millisecond), took.Round(time.Millisecond), peak>>20)
			require.Less(t, peak, int64(memoryMax))
			db.Exec(t, fmt.Sprintf("select pg_drop_replication_slot('%s')", slotOf(db)), "truncate x08, other", "checkpoint")
		}
	})
}

// requireNoFiles finds nothing but folders below dir.
func requireNoFiles(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.True(t, err == nil && d.IsDir(), path)
		return err
	}))
}
