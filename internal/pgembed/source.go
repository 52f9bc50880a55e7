package pgembed

import "fmt"

// This file alone names public addresses of Postgres builds.

// publicBase is Maven Central, where the embedded-postgres-binaries project
// (Apache-2.0; the builds inside are under the PostgreSQL licence) publishes
// relocatable builds. They are for demo and tests, never part of a release.
const publicBase = "https://repo1.maven.org/maven2/"

// build is one pinned download: a jar, which is a zip, holding a .txz.
type build struct {
	Version  string // of Postgres, as the server says it
	Platform string // our name: GOOS-GOARCH
	Path     string // below the base address
	SHA256   string // of the jar, in hex
	Size     int64  // of the jar, in bytes
}

// pins are the builds that may be downloaded, the preferred version first. To
// move to another version, change all rows; the checksums are those of the
// published files.
var pins = []build{
	zonky("18.4", "linux-amd64", "linux-amd64", 15175961, "401d4e69baba9072d3772607710df0d47b39a7632c6b01b2a5f5d85a9514e212"),
	zonky("18.4", "linux-arm64", "linux-arm64v8", 14176928, "a9ec284923b9a7d2db41509bfb88c3d0eeb9f4aa5e2b29ea0aac5e8dbaf4c335"),
	zonky("18.4", "darwin-amd64", "darwin-amd64", 33142772, "68381ed1488edd337345c6c4bc6ae0c823832a4dd7af8b04656ee5c218c291b5"),
	zonky("18.4", "darwin-arm64", "darwin-arm64v8", 33143779, "ab698c4486a795d2aa8a158b3a41e1201a77e7ff72a6255094cd5900080853c2"),
}

// zonky builds one row; published is the publisher's name of the platform.
func zonky(version, platform, published string, size int64, sum string) build {
	artifact := "embedded-postgres-binaries-" + published
	release := version + ".0"
	return build{
		Version: version, Platform: platform, Size: size, SHA256: sum,
		Path: fmt.Sprintf("io/zonky/test/postgres/%s/%s/%s-%s.jar", artifact, release, artifact, release),
	}
}
