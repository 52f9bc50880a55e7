// Command testsink serves the sink that judges us; see package testsink. It is built by
// tests alone, mostly with the tag failpoints.
package main

import (
	"fmt"
	"os"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
)

func main() {
	if err := failpoint.Load(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	config, err := testsink.FromEnvironment(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := testsink.Run(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
