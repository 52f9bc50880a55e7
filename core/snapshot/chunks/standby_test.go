package chunks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// TestNewestRunning: the wait ends when everything that runs is above the newest one, also
// where numbers of 32 bits begin again.
func TestNewestRunning(t *testing.T) {
	require.Empty(t, newest(745, 0))
	for _, oldest := range []uint64{745, 1<<32 - 3, 1<<32 - 1, 1<<32 + 3, 5<<32 - 1} {
		const n = 10
		writers := newest(oldest, n)
		require.Len(t, writers, 1)
		for ended := range uint64(n + 1) {
			s := over(incremental.Snapshot{Min: oldest + ended, Max: oldest + 2*n})
			require.Equal(t, ended == n, s.Visible(writers[0].XID), "%d + %d", oldest, ended)
		}
	}
}
