package testsink_test

import (
	"os"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/process"
)

func TestMain(m *testing.M) {
	if outer, code := process.Prepare(); outer {
		os.Exit(code)
	}
	pgtest.Main(m, pgtest.NoLeaks())
}
