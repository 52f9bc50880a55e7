package pgembed

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// npmTree makes a package as npm leaves it: files, a list of links, no links.
func npmTree(t *testing.T, list string) (root, bin string) {
	t.Helper()
	root = t.TempDir()
	bin = filepath.Join(root, "native", "bin")
	lib := filepath.Join(root, "native", "lib")
	require.NoError(t, os.MkdirAll(bin, 0o755))
	require.NoError(t, os.MkdirAll(lib, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(lib, "libx.so.5.17"), []byte("x"), 0o644))
	if list != "" {
		require.NoError(t, os.WriteFile(filepath.Join(root, "native", "pg-symlinks.json"), []byte(list), 0o644))
	}
	return root, bin
}

const oneLink = `[{"source":"native/lib/libx.so.5.17","target":"native/lib/libx.so.5"}]`

func TestLinksAreMadeOnceByMany(t *testing.T) {
	root, bin := npmTree(t, oneLink)
	var wg sync.WaitGroup
	errs := make(chan error, 32)
	for range cap(errs) {
		wg.Go(func() { errs <- ensureLinks(bin) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	dest, err := os.Readlink(filepath.Join(root, "native", "lib", "libx.so.5"))
	require.NoError(t, err)
	require.Equal(t, "libx.so.5.17", dest)
	left, err := filepath.Glob(filepath.Join(root, "native", "lib", "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestLinksThatPointElsewhereAreReplaced(t *testing.T) {
	root, bin := npmTree(t, oneLink)
	target := filepath.Join(root, "native", "lib", "libx.so.5")
	require.NoError(t, os.Symlink("gone", target))
	require.NoError(t, ensureLinks(bin))
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "x", string(text))
}

func TestLinksStayInsideThePackage(t *testing.T) {
	for _, list := range []string{
		`[{"source":"native/lib/libx.so.5.17","target":"../out"}]`,
		`[{"source":"/etc/passwd","target":"native/lib/libx.so.5"}]`,
		`not json`,
	} {
		_, bin := npmTree(t, list)
		require.Error(t, ensureLinks(bin), list)
	}
}

func TestATreeWithoutAListNeedsNoLinks(t *testing.T) {
	_, bin := npmTree(t, "")
	require.NoError(t, ensureLinks(bin))
}
