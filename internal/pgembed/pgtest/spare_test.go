package pgtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// A spare server comes back as it was, whatever the test before did to it.
func TestSpareIsRestored(t *testing.T) {
	majors, err := pgtest.Majors()
	require.NoError(t, err)
	major := majors[len(majors)-1]
	shown := func(t *testing.T, pg *pgtest.Server) (level string) {
		require.NoError(t, pg.Database(t).Conn(t).QueryRow(t.Context(), "SHOW wal_level").Scan(&level))
		return level
	}
	var first *pgtest.Server
	t.Run("bends it", func(t *testing.T) {
		first = pgtest.Spare(t, major)
		first.Database(t).Exec(t, "ALTER SYSTEM SET wal_level = 'minimal'", "ALTER SYSTEM SET max_wal_senders = 0")
		require.NoError(t, first.Restart(t.Context()))
		require.Equal(t, "minimal", shown(t, first))
	})
	t.Run("stops it", func(t *testing.T) {
		pg := pgtest.Spare(t, major)
		require.Same(t, first, pg)
		require.NotSame(t, pgtest.Shared(t, major), pg)
		require.Equal(t, "logical", shown(t, pg))
		require.NotEmpty(t, pg.TCPDSN("postgres"))
		require.NoError(t, pg.Stop())
	})
	t.Run("finds it", func(t *testing.T) {
		require.Equal(t, "logical", shown(t, pgtest.Spare(t, major)))
	})
}
