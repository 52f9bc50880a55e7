package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// play as the first argument makes the test binary a sink.
const play = "-play-sink"

// built names the program to test. The tests build it, run themselves once more with
// this set, and remove it again.
const built = "REPLICANT_PROGRAM_UNDER_TEST"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == play:
		if err := playSink(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case os.Getenv(built) == "":
		os.Exit(buildAndRun())
	}
	pgtest.Main(m, pgtest.NoLeaks())
}

func buildAndRun() int {
	runtime.LockOSThread() // the tests end with us
	dir, err := os.MkdirTemp("", "replicant-program-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "replicant-sidecar")
	args := []string{"build", "-o", path}
	if raced {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../..")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	tests := exec.Command(os.Args[0], os.Args[1:]...)
	tests.Env = append(os.Environ(), built+"="+path)
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	tests.SysProcAttr = dieWithParent()
	if err := tests.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
