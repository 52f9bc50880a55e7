package pgembed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DownloadOptions allows the download of a pinned build.
type DownloadOptions struct {
	// Base is the address of a mirror in the publisher's layout; empty means
	// the public one. The checksum is the same.
	Base string
	// Progress is called with the bytes read and the whole size; it may be nil.
	Progress func(done, total int64)

	pins []build // tests put their own here
}

// download fetches the pinned build of a major (0: the preferred one) for this
// machine into the cache. A build appears there complete and tried, or not at
// all: checksum first, then unpacking beside it, then one rename.
func download(ctx context.Context, major int, opts FindOptions) (Binaries, error) {
	b, err := pinned(major, opts.Download.pins)
	if err != nil {
		return Binaries{}, err
	}
	cache, err := cacheDir(opts)
	if err != nil {
		return Binaries{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Binaries{}, err
	}
	removeOld(filepath.Join(cache, ".half-*"), time.Hour)
	half, err := os.MkdirTemp(cache, ".half-")
	if err != nil {
		return Binaries{}, err
	}
	defer os.RemoveAll(half)
	jar := filepath.Join(half, "build.jar")
	if err := fetch(ctx, b, opts.Download, jar); err != nil {
		return Binaries{}, err
	}
	tree := filepath.Join(half, "tree")
	if err := unpack(ctx, jar, tree); err != nil {
		return Binaries{}, err
	}
	got, err := inspect(ctx, filepath.Join(tree, "bin"), "download")
	if err != nil {
		return Binaries{}, err
	}
	if got.Version != b.Version {
		return Binaries{}, fmt.Errorf("the build says it is %s, pinned is %s", got.Version, b.Version)
	}
	dest := filepath.Join(cache, b.Version+"-"+b.Platform)
	if err := os.Rename(tree, dest); err != nil {
		// Another process may have put the same build there meanwhile.
		if again, errAgain := inspect(ctx, filepath.Join(dest, "bin"), "user cache "+cache); errAgain == nil {
			return again, nil
		}
		return Binaries{}, err
	}
	return inspect(ctx, filepath.Join(dest, "bin"), "download into "+cache)
}

// pinned returns the pin of a major for this machine.
func pinned(major int, list []build) (build, error) {
	if list == nil {
		list = pins
	}
	for _, b := range list {
		if b.Platform == platform() && (major == 0 || strings.HasPrefix(b.Version, fmt.Sprintf("%d.", major))) {
			return b, nil
		}
	}
	if major == 0 {
		return build{}, fmt.Errorf("no build is pinned for %s", platform())
	}
	return build{}, fmt.Errorf("no build of major %d is pinned for %s", major, platform())
}

// fetch downloads a build into a file and checks its checksum.
func fetch(ctx context.Context, b build, opts *DownloadOptions, path string) error {
	base := opts.Base
	if base == "" {
		base = publicBase
	}
	url := strings.TrimSuffix(base, "/") + "/" + b.Path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	w := io.MultiWriter(out, sum, &meter{total: b.Size, report: opts.Progress})
	// One byte more than pinned is enough to know that it is another file.
	n, err := io.Copy(w, io.LimitReader(resp.Body, b.Size+1))
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("%s: after %d of %d bytes: %w", url, n, b.Size, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != b.SHA256 {
		return fmt.Errorf("%s: not the pinned file, nothing of it is kept: SHA-256 %s after %d bytes, pinned is %s of %d bytes", url, got, n, b.SHA256, b.Size)
	}
	return nil
}

// meter reports progress as bytes pass.
type meter struct {
	done, total int64
	report      func(done, total int64)
}

func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	if m.report != nil {
		m.report(m.done, m.total)
	}
	return len(p), nil
}
