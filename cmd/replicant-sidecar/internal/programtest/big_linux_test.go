package programtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// big makes the large transaction one of 1 GB, which takes minutes and 10 GB of disk, on
// every major; `make big` sets it. Otherwise it is 80 MB on one.
const big = "REPLICANT_BIG"

// X08: one transaction of about 1 GB passes in less than 256 MiB of the sidecar's memory,
// whole after its commit and streamed while it is in progress, and what comes after it
// follows.
func TestX08OneHugeTransaction(t *testing.T) {
	if os.Getenv(big) == "" {
		passes(t, pgtest.Shared(t, 18), 250_000)
		return
	}
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) { passes(t, pg, 3_000_000) })
}

func passes(t *testing.T, pg *pgtest.Server, rows int) {
	db := pg.Database(t)
	db.Exec(t, "create table x08(id int primary key, t text)", "create table other(id int primary key)",
		"create publication shop for table x08, other")
	for _, streaming := range []string{"off", "on"} {
		spill := t.TempDir()
		t.Setenv("REPLICANT_STREAMING", streaming)
		t.Setenv("REPLICANT_SPILL_MAX", "2GiB")
		t.Setenv("REPLICANT_SPILL_DIR", spill)
		path := filepath.Join(t.TempDir(), "log")
		p := launch(t, db, "run", "--go-forward-only", "--", os.Args[0], play, "count", path)
		p.says(`"streaming"`)
		write, arrive := passesOnce(t, db, path, rows)
		nothingIn(t, spill)
		peak := peakOf(t, p.cmd.Process.Pid)
		p.signal(syscall.SIGTERM)
		require.Zero(t, p.exit())
		fmt.Printf("Postgres %d, streaming %-3s: %d rows written in %s, at the sink %s after the commit, sidecar's peak memory %d MiB\n",
			pg.Major, streaming, rows, write.Round(time.Millisecond), arrive.Round(time.Millisecond), peak>>20)
		if !raced {
			require.Less(t, peak, int64(256<<20))
		}
		db.Exec(t, fmt.Sprintf("select pg_drop_replication_slot('%s')", slotOf(db)), "truncate x08, other", "checkpoint")
	}
}

// peakOf is the most memory that a running program has held, in bytes. What its end reports
// (ru_maxrss) begins with what this process held when it started the program.
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(status), "\nVmHWM:")
	require.True(t, found)
	var kilobytes int64
	_, err = fmt.Sscan(after, &kilobytes)
	require.NoError(t, err)
	return kilobytes << 10
}

// passesOnce writes the large transaction and a small one, and waits until the sink has
// both.
func passesOnce(t *testing.T, db *pgtest.DB, path string, rows int) (write, arrive time.Duration) {
	const enough = 20 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	conn := db.Conn(t)
	began := time.Now()
	_, err := conn.Exec(ctx, fmt.Sprintf("insert into x08 select i, repeat(md5(i::text), 10) from generate_series(1, %d) i", rows))
	require.NoError(t, err)
	committed := time.Now()
	_, err = conn.Exec(ctx, "insert into other values (7)")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(stored(t, path)) == 2 }, enough, 50*time.Millisecond)
	arrive = time.Since(committed)
	require.Equal(t, []string{fmt.Sprintf("%d rows", rows), "7"}, stored(t, path))
	return committed.Sub(began), arrive
}
