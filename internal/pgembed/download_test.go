package pgembed

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// packJar packs a tree as the publisher does: a zip that holds a .txz.
func packJar(t *testing.T, tree string) []byte {
	t.Helper()
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	require.NoError(t, filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if st.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(st, link)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		h.Name = "./" + filepath.ToSlash(rel)
		if err := w.WriteHeader(h); err != nil || !st.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	}))
	require.NoError(t, w.Close())
	return zipped(t, map[string][]byte{"META-INF/MANIFEST.MF": []byte("x"), "postgres-any.txz": storedXZ(plain.Bytes())})
}

func zipped(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	for name, content := range files {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		require.NoError(t, err)
		_, err = f.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return jar.Bytes()
}

func pin(version string, jar []byte) build {
	sum := sha256.Sum256(jar)
	return build{
		Version: version, Platform: platform(), Path: "a/b.jar",
		SHA256: hex.EncodeToString(sum[:]), Size: int64(len(jar)),
	}
}

// mirror serves one file and counts the requests.
func mirror(t *testing.T, jar []byte) (base string, served *atomic.Int64) {
	t.Helper()
	served = &atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/a/b.jar" {
			http.NotFound(w, r)
			return
		}
		served.Add(1)
		_, _ = w.Write(jar)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, served
}

// fakeTree is a small installation with a link in it.
func fakeTree(t *testing.T, version string) string {
	t.Helper()
	tree := t.TempDir()
	fakeBin(t, filepath.Join(tree, "bin"), version)
	require.NoError(t, os.MkdirAll(filepath.Join(tree, "lib"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "lib", "libpq.so.5.17"), []byte("lib"), 0o644))
	require.NoError(t, os.Symlink("libpq.so.5.17", filepath.Join(tree, "lib", "libpq.so.5")))
	return tree
}

func TestDownloadIsCheckedUnpackedAndCached(t *testing.T) {
	opts := noPostgres(t)
	jar := packJar(t, fakeTree(t, "99.4"))
	base, served := mirror(t, jar)
	var last, total int64
	opts.Download = &DownloadOptions{
		Base: base + "/", pins: []build{pin("99.4", jar)},
		Progress: func(d, all int64) { last, total = d, all },
	}
	b, err := Find(t.Context(), 99, opts)
	require.NoError(t, err)
	require.Equal(t, "99.4", b.Version)
	require.Equal(t, filepath.Join(opts.CacheDir, "99.4-"+platform(), "bin"), b.Dir)
	require.EqualValues(t, len(jar), last)
	require.EqualValues(t, len(jar), total)
	text, err := os.ReadFile(filepath.Join(b.Dir, "..", "lib", "libpq.so.5"))
	require.NoError(t, err)
	require.Equal(t, "lib", string(text))

	_, err = Find(t.Context(), 99, opts)
	require.NoError(t, err)
	require.EqualValues(t, 1, served.Load(), "the second time it comes from the cache")
}

func TestDownloadByManyAtOnce(t *testing.T) {
	opts := noPostgres(t)
	jar := packJar(t, fakeTree(t, "99.4"))
	base, _ := mirror(t, jar)
	opts.Download = &DownloadOptions{Base: base, pins: []build{pin("99.4", jar)}}
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() {
			_, err := download(t.Context(), 99, opts)
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	requireCache(t, opts, "99.4-"+platform())
}

// requireCache says what the cache holds, hidden entries included.
func requireCache(t *testing.T, opts FindOptions, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(opts.CacheDir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, want, names)
}

func TestDownloadThatIsNotThePinnedFileLeavesNothing(t *testing.T) {
	good := packJar(t, fakeTree(t, "99.4"))
	other := bytes.Clone(good)
	other[len(other)/2] ^= 1
	tests := map[string]struct {
		served []byte
		pin    build
		want   string
	}{
		"one bit":        {other, pin("99.4", good), "not the pinned file"},
		"cut":            {good[:len(good)-100], pin("99.4", good), "not the pinned file"},
		"longer":         {append(bytes.Clone(good), 0), pin("99.4", good), "not the pinned file"},
		"other version":  {good, pin("99.5", good), "says it is 99.4"},
		"no archive":     {zipped(t, nil), pin("99.4", zipped(t, nil)), "holds no .txz"},
		"not a zip":      {[]byte("hello"), pin("99.4", []byte("hello")), "not a jar"},
		"other platform": {good, build{Version: "99.4", Platform: "plan9-mips"}, "no build of major 99 is pinned"},
		"not there":      {good, build{Version: "99.4", Platform: platform(), Path: "gone"}, "404"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			opts := noPostgres(t)
			base, _ := mirror(t, tt.served)
			opts.Download = &DownloadOptions{Base: base, pins: []build{tt.pin}}
			_, err := Find(t.Context(), 99, opts)
			require.ErrorContains(t, err, tt.want)
			requireCache(t, opts)
		})
	}
}

// The connection breaks in the middle: the server promised more than it sent.
func TestDownloadThatBreaksLeavesNothing(t *testing.T) {
	opts := noPostgres(t)
	jar := packJar(t, fakeTree(t, "99.4"))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(jar[:100])
	}))
	defer srv.Close()
	opts.Download = &DownloadOptions{Base: srv.URL, pins: []build{pin("99.4", jar)}}
	_, err := Find(t.Context(), 99, opts)
	require.ErrorContains(t, err, "after 100 of")
	requireCache(t, opts)
}

// An archive cannot write outside of its tree, not by name and not by link.
func TestUnpackStaysInside(t *testing.T) {
	tests := map[string][]tar.Header{
		"name":          {{Name: "../evil", Typeflag: tar.TypeReg, Mode: 0o644}},
		"absolute link": {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}},
		"link out":      {{Name: "a/b", Typeflag: tar.TypeSymlink, Linkname: "../../x"}},
		"device":        {{Name: "a", Typeflag: tar.TypeChar}},
	}
	for name, headers := range tests {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			w := tar.NewWriter(&buf)
			for _, h := range headers {
				require.NoError(t, w.WriteHeader(&h))
			}
			require.NoError(t, w.Close())
			dir := t.TempDir()
			require.Error(t, untar(t.Context(), &buf, filepath.Join(dir, "tree")))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "only the tree itself")
		})
	}
}

func TestPinsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range pins {
		sum, err := hex.DecodeString(b.SHA256)
		require.NoError(t, err)
		require.Len(t, sum, sha256.Size)
		require.Positive(t, b.Size)
		require.False(t, seen[b.Version+b.Platform+b.SHA256])
		seen[b.Version+b.Platform+b.SHA256] = true
	}
	for _, p := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"} {
		require.True(t, func() bool {
			for _, b := range pins {
				if b.Platform == p {
					return true
				}
			}
			return false
		}(), p)
	}
}
