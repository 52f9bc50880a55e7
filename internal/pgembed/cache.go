package pgembed

import (
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
