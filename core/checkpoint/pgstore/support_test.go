package pgstore_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func requireUnavailable(t *testing.T, err error, text string) {
	t.Helper()
	var away *checkpoint.UnavailableError
	require.ErrorAs(t, err, &away)
	require.ErrorContains(t, err, text)
}

// freeze stops the postmaster and its children until the test ends.
func freeze(t *testing.T, pg *pgtest.Server) {
	t.Helper()
	var all []int
	for _, pid := range append(children(t, pg.PID()), pg.PID()) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		all = append(all, pid)
	}
	t.Cleanup(func() {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
}

func children(t *testing.T, parent int) []int {
	t.Helper()
	var pids []int
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal makes a file in the data directory that belongs to the server's account.
func signal(t *testing.T, pg *pgtest.Server, name string) {
	t.Helper()
	file := filepath.Join(pg.DataDir(), name)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	info, err := os.Stat(pg.DataDir())
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	require.NoError(t, os.Chown(file, int(owner.Uid), int(owner.Gid)))
}

func remove(t *testing.T, pg *pgtest.Server, name string) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(pg.DataDir(), name)))
}
