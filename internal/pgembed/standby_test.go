package pgembed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// A standby has what the primary had, follows it, survives a kill, and goes its own way
// when the primary is gone and it is promoted.
func TestStandbyOfEveryMajor(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		primary := pgtest.Own(t, pg.Major, pgembed.Options{})
		query(t, primary.DSN("postgres"), "CREATE TABLE a AS SELECT generate_series(1, 1000) AS id")
		standby, err := primary.Standby(t.Context(), map[string]string{"hot_standby_feedback": "on"})
		require.NoError(t, err)
		defer func() { require.NoError(t, standby.Close()) }()
		dsn := standby.DSN("postgres")
		require.Equal(t, "true", query(t, dsn, "SELECT pg_is_in_recovery()"))
		require.Equal(t, "on", query(t, dsn, "SHOW hot_standby_feedback"))
		holds := func(rows string) func() bool {
			return func() bool {
				got, err := tryQuery(t.Context(), dsn, "SELECT count(*) FROM a")
				return err == nil && got == rows
			}
		}
		query(t, primary.DSN("postgres"), "INSERT INTO a VALUES (0)")
		require.Eventually(t, holds("1001"), 30*time.Second, 20*time.Millisecond)
		require.NoError(t, standby.Kill())
		require.NoError(t, standby.Restart(t.Context()))
		query(t, primary.DSN("postgres"), "INSERT INTO a VALUES (0)")
		require.Eventually(t, holds("1002"), 30*time.Second, 20*time.Millisecond)
		require.NoError(t, primary.Kill())
		require.Equal(t, "true", query(t, dsn, "SELECT pg_promote()"))
		query(t, dsn, "INSERT INTO a VALUES (0)")
		require.True(t, holds("1003")())
		require.Equal(t, "00000002", query(t, dsn, "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"))
	})
}
