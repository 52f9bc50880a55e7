package pgembed

import "runtime"

// platform names this machine's builds in the cache.
func platform() string { return runtime.GOOS + "-" + runtime.GOARCH }
