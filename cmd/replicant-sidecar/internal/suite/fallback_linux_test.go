package suite

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/crash"
)

// TestWhereAFilterIsForbiddenItFallsBackAndSaysSo: a process under one supervisor cannot
// have a second, as in a container that forbids seccomp.
func TestWhereAFilterIsForbiddenItFallsBackAndSaysSo(t *testing.T) {
	var out bytes.Buffer
	run, err := crash.Start(context.Background(), crash.Options{
		Args: []string{os.Args[0]}, Env: append(os.Environ(), playEnv+"=nested"), Stdout: &out, Stderr: &out,
	})
	require.NoError(t, err)
	result, err := run.Wait()
	require.NoError(t, err)
	require.Zero(t, result.Status.ExitStatus(), out.String())
	require.Contains(t, out.String(), "fallback: calls of a process cannot be intercepted here")
	require.Contains(t, out.String(), "2 ways to crash")
}
