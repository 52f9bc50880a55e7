package demo

import (
	"context"
	"os/exec"
)

// goBuild compiles the sidecar into path.
func goBuild(ctx context.Context, path string) (output string, err error) {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "../..").CombinedOutput()
	return string(out), err
}
