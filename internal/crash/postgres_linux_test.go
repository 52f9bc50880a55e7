//go:build amd64 || arm64

package crash

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// underEye runs a stopped server's cluster again, supervised.
func underEye(t *testing.T, s *pgtest.Server) *Run {
	t.Helper()
	require.NoError(t, s.Stop())
	st, err := os.Stat(s.DataDir())
	require.NoError(t, err)
	owner := st.Sys().(*syscall.Stat_t)
	log, err := os.OpenFile(s.LogPath(), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer log.Close()
	o := Options{
		Args: []string{s.Bin().Path("postgres"), "-D", s.DataDir()},
		Env:  []string{"LC_ALL=C", "TZ=UTC"}, Dir: s.Dir(), Stdout: log, Stderr: log,
	}
	if os.Getuid() == 0 {
		o.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	r, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = r.Signal(syscall.SIGQUIT) // removes its shared memory, which a kill would leave
		_, err := r.Wait()
		require.NoError(t, err)
	})
	return r
}

// connect waits for a server that is starting, or recovering.
func connect(t *testing.T, s *pgtest.Server) *pgx.Conn {
	t.Helper()
	var conn *pgx.Conn
	eventually(t, "the server takes connections", func() (ok bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var err error
		if conn, err = pgx.Connect(ctx, s.DSN("postgres")); err != nil {
			return false
		}
		if _, err = conn.Exec(ctx, "SELECT 1"); err != nil {
			_ = conn.Close(ctx)
		}
		return err == nil
	})
	return conn
}

// commitKilledAt inserts row n and kills its backend at the n-th storage call of the
// commit. It reports the call's name, "" when the commit survived, and whether the row is
// there after the server has recovered.
func commitKilledAt(t *testing.T, s *pgtest.Server, r *Run, n int) (name string, visible bool) {
	t.Helper()
	ctx := t.Context()
	bystander := connect(t, s)
	defer bystander.Close(context.Background())
	conn := connect(t, s)
	defer conn.Close(context.Background())
	_, err := conn.Exec(ctx, "BEGIN")
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "INSERT INTO t VALUES ($1)", n)
	require.NoError(t, err)
	r.Arm(Shot{Select: ByPID(int(conn.PgConn().PID())), At: n, Action: KillProcess})
	if _, err = conn.Exec(ctx, "COMMIT"); err != nil {
		select {
		case <-r.Hit():
			name = r.Last().Syscall
			require.Equal(t, int(conn.PgConn().PID()), r.Last().PID)
			require.Contains(t, r.Last().Title, "COMMIT")
		case <-time.After(20 * time.Second):
			require.NoError(t, err, "it failed, and not by us")
		}
		// The server notices a moment later, and until then still lets people in.
		eventually(t, "everybody is thrown out", func() bool {
			_, err := bystander.Exec(ctx, "SELECT 1")
			return err != nil
		})
	}
	r.Arm(Shot{})
	after := connect(t, s)
	defer after.Close(context.Background())
	require.NoError(t, after.QueryRow(ctx, "SELECT EXISTS (SELECT FROM t WHERE n = $1)", n).Scan(&visible))
	return name, visible
}

// The same backend call decides whether a commit happened: killed before its WAL is
// written the row is not there, killed before the WAL is synced it is, and its client was
// told nothing in either case.
func TestEveryPointOfACommit(t *testing.T) {
	majors, err := pgtest.Majors()
	require.NoError(t, err)
	for _, major := range majors {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			s := pgtest.Own(t, major, pgembed.Options{Durable: true, Settings: map[string]string{
				"autovacuum": "off", "wal_sync_method": "fdatasync", "wal_writer_delay": "10s",
				"recovery_init_sync_method": "syncfs", // each recovery would sync every file
			}})
			conn := connect(t, s)
			_, err := conn.Exec(t.Context(), "CREATE TABLE t (n int)")
			require.NoError(t, err)
			require.NoError(t, conn.Close(t.Context()))
			r := underEye(t, s)
			var names []string
			for n := 1; ; n++ {
				name, visible := commitKilledAt(t, s, r, n)
				if name == "" {
					require.True(t, visible)
					break
				}
				names = append(names, name)
				require.Equal(t, name == "fdatasync", visible, "killed before %s, call %d", name, n)
			}
			require.Equal(t, []string{"pwrite64", "fdatasync"}, names)
		})
	}
}
