package pgembed_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// envChild makes this test program a process that starts a server, says where,
// and waits to be killed.
const envChild = "PGEMBED_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		child()
	}
	pgtest.Main(m, pgtest.NoLeaks())
}

func child() {
	s, err := pgembed.Start(context.Background(), pgembed.Options{Find: pgembed.FindOptions{Checkout: true}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Dir())
	fmt.Println(s.PID())
	time.Sleep(5 * time.Minute)
	os.Exit(2)
}
