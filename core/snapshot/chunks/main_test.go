package chunks_test

import (
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.NoLeaks()) }
