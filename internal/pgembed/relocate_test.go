package pgembed_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// closedTree is a link-complete installation below a directory that only the
// caller can enter, as a root's home is.
func closedTree(t *testing.T) pgembed.Binaries {
	t.Helper()
	from := pgtest.Shared(t, 18).Bin()
	home := t.TempDir()
	require.NoError(t, os.Chmod(home, 0o700))
	tree := filepath.Join(home, "native")
	require.NoError(t, os.CopyFS(tree, os.DirFS(filepath.Dir(from.Dir))))
	from.Dir = filepath.Join(tree, "bin")
	return from
}

// Binaries in root's home are copied once to where the server's user reaches
// them.
func TestRootRunsBinariesOfAClosedHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root drops to another user")
	}
	b := closedTree(t)
	pg := pgtest.Own(t, 18, pgembed.Options{Binaries: b})
	copied := filepath.Dir(pg.Bin().Dir)
	t.Cleanup(func() { os.RemoveAll(copied) })
	require.NotEqual(t, b.Dir, pg.Bin().Dir)
	require.Equal(t, "1", query(t, pg.DSN("postgres"), "SELECT 1"))

	first, err := os.Stat(copied)
	require.NoError(t, err)
	again := pgtest.Own(t, 18, pgembed.Options{Binaries: b})
	require.Equal(t, pg.Bin().Dir, again.Bin().Dir)
	second, err := os.Stat(copied)
	require.NoError(t, err)
	require.True(t, os.SameFile(first, second), "copied once")
}

// A directory that somebody else put where the copy goes is not run.
func TestCopyIsNotTakenFromOthers(t *testing.T) {
	b := closedTree(t)
	root := t.TempDir()
	before := syscall.Umask(0o077)
	moved, err := pgembed.Relocate(b, root)
	syscall.Umask(before)
	require.NoError(t, err)
	for path, want := range map[string]os.FileMode{"bin": 0o755, "bin/postgres": 0o755, "lib/libz.so.1": 0o644} {
		st, err := os.Stat(filepath.Join(filepath.Dir(moved.Dir), path))
		require.NoError(t, err)
		require.Equal(t, want, st.Mode().Perm(), path)
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing half made is left")
	require.NoError(t, os.Chmod(filepath.Dir(moved.Dir), 0o777))
	_, err = pgembed.Relocate(b, root)
	require.ErrorContains(t, err, "was not made by this user")

	require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(b.Dir), "share")))
	_, err = pgembed.Relocate(b, t.TempDir())
	require.ErrorContains(t, err, "share")
}

// The whole way of a machine without Postgres: download, checksum, unpack,
// initdb, start. The build is the one of test/pg, packed as the publisher does.
func TestStartFromADownload(t *testing.T) {
	from := pgtest.Shared(t, 18).Bin()
	cache := t.TempDir()
	empty := t.TempDir()
	t.Setenv(pgembed.EnvRoot, empty)
	t.Setenv(pgembed.EnvBin, "")
	find := pgembed.FindOptions{CacheDir: cache, Download: pgembed.DownloadOf(t, from, filepath.Dir(from.Dir))}
	s, err := pgembed.Start(t.Context(), pgembed.Options{Major: 18, Find: find})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		if dir := filepath.Dir(s.Bin().Dir); filepath.Dir(dir) != cache {
			os.RemoveAll(dir) // the copy for a server that is not root's
		}
	})
	require.Contains(t, s.Bin().Source, "download into "+cache)
	require.Equal(t, from.Version, s.Bin().Version)
	require.Equal(t, "1", query(t, s.DSN("postgres"), "SELECT 1"))
}
