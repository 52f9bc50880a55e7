package pgembed

// For the tests that need real servers, which live outside of the package.
var (
	EndServers = endServers
	Relocate   = relocate
)
