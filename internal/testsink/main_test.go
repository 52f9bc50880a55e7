package testsink_test

import (
	"flag"
	"os"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/process"
)

// together is how many tests run at once: they mostly wait for pauses and for Postgres.
const together = "6"

func TestMain(m *testing.M) {
	if outer, code := process.Prepare(); outer {
		os.Exit(code)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", together)
	}
	pgtest.Main(m, pgtest.NoLeaks())
}
