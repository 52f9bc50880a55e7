package pgembed

import "runtime"

// platform names this machine's builds, in the cache and in the pins.
func platform() string { return runtime.GOOS + "-" + runtime.GOARCH }
