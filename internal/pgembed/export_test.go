package pgembed

import "testing"

// For the tests that need real servers, which live outside of the package.
var (
	EndServers = endServers
	Relocate   = relocate
)

// DownloadOf serves an installation as the pinned build of its version.
func DownloadOf(t *testing.T, b Binaries, tree string) *DownloadOptions {
	t.Helper()
	jar := packJar(t, tree)
	base, _ := mirror(t, jar)
	return &DownloadOptions{Base: base, pins: []build{pin(b.Version, jar)}}
}
