package pgembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// cacheDir is where downloaded builds live.
func cacheDir(opts FindOptions) (string, error) {
	if opts.CacheDir != "" {
		return filepath.Abs(opts.CacheDir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "replicant", "pg"), nil
}

// cachedDirs lists the bin directories of a major in the cache.
func cachedDirs(cache string, major int) []string {
	dirs, err := filepath.Glob(filepath.Join(cache, fmt.Sprintf("%d.*-%s", major, platform()), "bin"))
	if err != nil {
		return nil
	}
	return dirs
}

// DownloadOptions allows the download of a pinned build.
type DownloadOptions struct {
	// Progress is called with the bytes read and the whole size, -1 when the
	// server does not say; it may be nil.
	Progress func(done, total int64)
}

func download(context.Context, int, FindOptions) (Binaries, error) {
	return Binaries{}, errors.New("no build is pinned")
}
