package pgembed_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// query runs one statement on a connection of its own and returns its first
// value as text.
func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	text, err := tryQuery(t.Context(), dsn, sql)
	require.NoError(t, err, sql)
	return text
}

func tryQuery(ctx context.Context, dsn, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	text := ""
	if rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return "", err
		}
		if len(values) > 0 {
			text = fmt.Sprint(values[0])
		}
	}
	return text, rows.Err()
}

// Every major starts as the package promises and runs as no root.
func TestStartEveryMajor(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		dsn := pg.DSN("postgres")
		require.True(t, strings.HasPrefix(query(t, dsn, "SHOW server_version"), fmt.Sprint(pg.Major, ".")))
		for name, want := range map[string]string{
			"wal_level": "logical", "fsync": "off", "listen_addresses": "", "max_replication_slots": "40",
			"max_wal_senders": "40", "max_prepared_transactions": "20", "server_encoding": "UTF8",
			"timezone": "UTC", "data_directory": pg.DataDir(),
		} {
			require.Equal(t, want, query(t, dsn, "SHOW "+name), name)
		}
		st, err := os.Stat(filepath.Join(pg.DataDir(), "PG_VERSION"))
		require.NoError(t, err)
		require.NotZero(t, st.Sys().(*syscall.Stat_t).Uid, "Postgres runs as root")
		st, err = os.Stat(pg.Dir())
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), st.Mode().Perm(), "others reach the socket")
		require.NoError(t, syscall.Kill(pg.PID(), 0))
		require.FileExists(t, pg.LogPath())
	})
}

// startBusy makes a backend that computes and does not see its postmaster go.
func startBusy(t *testing.T, dsn string) <-chan error {
	t.Helper()
	busy := make(chan error, 1)
	go func() {
		_, err := tryQuery(context.Background(), dsn, "SELECT count(*) FROM (SELECT generate_series(1, 100000000000)) AS endless")
		busy <- err
	}()
	const running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(%' AND pid <> pg_backend_pid()"
	require.Eventually(t, func() bool {
		n, err := tryQuery(context.Background(), dsn, running)
		return err == nil && n == "1"
	}, 20*time.Second, 20*time.Millisecond)
	return busy
}

// A committed row survives the crash; the same DSN works again; a third start
// after a clean stop too.
func TestKillStopRestart(t *testing.T) {
	pg := pgtest.Own(t, 17, pgembed.Options{Durable: true, DecodingWorkMem: "64kB", Settings: map[string]string{"work_mem": "5MB", "max_connections": "30"}})
	dsn := pg.DSN("postgres")
	require.Equal(t, "on", query(t, dsn, "SHOW fsync"))
	require.Equal(t, "64kB", query(t, dsn, "SHOW logical_decoding_work_mem"))
	require.Equal(t, "5MB", query(t, dsn, "SHOW work_mem"))
	query(t, dsn, "CREATE TABLE a (id int)")
	query(t, dsn, "INSERT INTO a VALUES (1)")
	before := pg.PID()
	busy := startBusy(t, dsn)

	require.NoError(t, pg.Kill())
	require.Zero(t, pg.PID())
	require.False(t, pg.Running())
	require.Empty(t, workers(pg.Dir()), "children are gone when Kill returns")
	require.Error(t, <-busy)
	_, err := tryQuery(t.Context(), dsn, "SELECT 1")
	require.Error(t, err)
	require.Error(t, pg.Kill(), "nothing to kill")

	require.NoError(t, pg.Restart(t.Context()))
	require.NotEqual(t, before, pg.PID())
	require.Equal(t, "1", query(t, dsn, "SELECT count(*) FROM a"))

	require.NoError(t, pg.Stop())
	require.NoError(t, pg.Stop())
	require.NoError(t, pg.Restart(t.Context()))
	require.Equal(t, "1", query(t, dsn, "SELECT count(*) FROM a"))
	require.NoError(t, pg.Restart(t.Context()), "of a running server")

	require.NoError(t, pg.Close())
	require.NoError(t, pg.Close())
	require.True(t, gone(pg.Dir()))
	require.Error(t, pg.Restart(t.Context()))
}

// Close after a Kill leaves nothing either, the kernel's shared memory
// included.
func TestCloseAfterKillFreesSharedMemory(t *testing.T) {
	pg := pgtest.Own(t, 15, pgembed.Options{})
	segment := func() bool {
		text, err := os.ReadFile("/proc/sysvipc/shm")
		require.NoError(t, err)
		return strings.Contains(string(text), fmt.Sprintf(" %d ", pidInFile(t, pg.DataDir())))
	}
	if _, err := os.Stat("/proc/sysvipc/shm"); err != nil {
		t.Skip("no System V shared memory to look at")
	}
	require.True(t, segment())
	pid := fmt.Sprintf(" %d ", pg.PID())
	require.NoError(t, pg.Kill())
	require.True(t, segment(), "a kill leaves it")
	require.NoError(t, pg.Close())
	text, err := os.ReadFile("/proc/sysvipc/shm")
	require.NoError(t, err)
	require.NotContains(t, string(text), pid)
}

func pidInFile(t *testing.T, data string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	require.NoError(t, err)
	return pid
}

// The loopback listener wants the password; the socket does not.
func TestTCP(t *testing.T) {
	pg := pgtest.Own(t, 16, pgembed.Options{TCP: true})
	require.Equal(t, "127.0.0.1/32", query(t, pg.TCPDSN("postgres"), "SELECT inet_server_addr()::text"))
	require.Equal(t, "true", query(t, pg.DSN("postgres"), "SELECT inet_server_addr() IS NULL"))
	_, err := tryQuery(t.Context(), fmt.Sprintf("postgres://postgres:wrong@127.0.0.1:%d/postgres?sslmode=disable", pg.Port()), "SELECT 1")
	require.ErrorContains(t, err, "password authentication failed")
	socketOnly := pgtest.Shared(t, 16)
	require.Empty(t, socketOnly.TCPDSN("postgres"))
}

// A named directory outlives the server and is taken up again.
func TestDirIsKept(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "pgdir")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	opts := pgembed.Options{Dir: filepath.Join(dir, "x"), Find: pgembed.FindOptions{Checkout: true}}
	require.NoError(t, os.Chmod(dir, 0o755))
	for i := range 2 {
		s, err := pgembed.Start(t.Context(), opts)
		require.NoError(t, err)
		query(t, s.DSN("postgres"), "CREATE TABLE IF NOT EXISTS a (id int)")
		query(t, s.DSN("postgres"), "INSERT INTO a VALUES (1)")
		require.Equal(t, fmt.Sprint(i+1), query(t, s.DSN("postgres"), "SELECT count(*) FROM a"))
		require.NoError(t, s.Close())
		require.DirExists(t, s.DataDir())
	}
}

// What the server says about its failure is in the error, and the directory
// of the failed start is gone.
func TestStartThatFails(t *testing.T) {
	before, err := filepath.Glob(filepath.Join(os.TempDir(), "replicant-pg-*"))
	require.NoError(t, err)
	_, err = pgembed.Start(t.Context(), pgembed.Options{
		Find: pgembed.FindOptions{Checkout: true}, Settings: map[string]string{"no_such_setting": "it's \\ odd"},
	})
	require.ErrorContains(t, err, `unrecognized configuration parameter "no_such_setting"`)
	after, err := filepath.Glob(filepath.Join(os.TempDir(), "replicant-pg-*"))
	require.NoError(t, err)
	for _, dir := range after {
		if !contains(before, dir) {
			require.True(t, liveOwner(dir), "%s is left", dir)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = pgembed.Start(ctx, pgembed.Options{Find: pgembed.FindOptions{Checkout: true}})
	require.ErrorIs(t, err, context.Canceled)
}

func contains(list []string, one string) bool {
	for _, have := range list {
		if have == one {
			return true
		}
	}
	return false
}

// liveOwner: another test program runs at the same time.
func liveOwner(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "owner"))
	return err == nil && !strings.Contains(string(text), fmt.Sprintf(`"pid":%d,`, os.Getpid()))
}
