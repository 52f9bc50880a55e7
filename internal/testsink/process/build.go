package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

const program = "github.com/replicant-sidecar/replicant-sidecar/internal/testsink/cmd"

// envProgram names the built program to the tests.
const envProgram = "TESTSINK_PROGRAM"

// Build builds the program, with failpoints, into a folder.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "testsink")
	out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", path, program).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the test sink: %w: %s", err, out)
	}
	return path, nil
}

// Prepare is for TestMain. In the outer process it builds the program, runs this test
// binary once more as the inner one, removes the program, and says with which code to
// exit. In the inner process it does nothing.
func Prepare() (outer bool, code int) {
	if os.Getenv(envProgram) != "" {
		return false, 0
	}
	runtime.LockOSThread() // the inner process ends with us
	dir, err := os.MkdirTemp("", "testsink")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true, 1
	}
	defer os.RemoveAll(dir)
	path, err := Build(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true, 1
	}
	inner := exec.Command(os.Args[0], os.Args[1:]...)
	inner.Env = append(os.Environ(), envProgram+"="+path)
	inner.Stdout, inner.Stderr, inner.SysProcAttr = os.Stdout, os.Stderr, dieWithParent()
	if err := inner.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true, 1
	}
	return true, 0
}
