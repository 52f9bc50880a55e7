package cases_test

import (
	"flag"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// together is how many cases run at once. Each holds two or three of a server's 40
// slots, and most of its time waits for Postgres.
const together = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", together)
	}
	pgtest.Main(m, pgtest.NoLeaks())
}
