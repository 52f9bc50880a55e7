package selftest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/crashpoint"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/sqlprobe"
)

// python gives the interpreter that has the Python sink's stubs.
func python(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../examples/python-sink/.venv/bin/python")
	require.NoError(t, err)
	require.FileExists(t, path, "the Python environment: make python")
	return path
}

// managedPython starts a Python sink with a SQLite file of its own.
func managedPython(t *testing.T, args ...string) conformance.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sink.db")
	launcher := crashpoint.NewLauncher(conformance.PlainLauncher())
	target, err := conformance.NewManaged(conformance.ManagedOptions{
		Args: append([]string{python(t)}, args...), Launcher: launcher,
		Env: append(os.Environ(), "REPLICANT_SINK_DB="+file, "PYTHONDONTWRITEBYTECODE=1"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Close()) })
	probe, err := sqlprobe.New(sqlprobe.Options{DSN: "sqlite:" + file})
	require.NoError(t, err)
	return conformance.Options{
		Target: target, Probe: probe, Seed: 11, Effort: conformance.Quick, CrashPoints: 2,
		Crashers: []conformance.Crasher{crashpoint.NewCalls(target, launcher), crashpoint.NewTimed(target)},
	}
}
