package failpoint

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ours finds the symbols of this package in what go tool nm lists.
var ours = regexp.MustCompile(`(?m)^.*` + regexp.QuoteMeta(self) + `.*$`)

// sidecar builds the program and gives its path, its symbols and what version says.
func sidecar(t *testing.T, tags ...string) (path, symbols string, version map[string]any) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "replicant-sidecar")
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Stderr = "../..", os.Stderr
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	run("go", append(append([]string{"build", "-o", path}, tags...), "./cmd/replicant-sidecar")...)
	symbols = run("go", "tool", "nm", path)
	require.Contains(t, symbols, "main.main")
	require.NoError(t, json.Unmarshal([]byte(run(path, "version", "-o", "json")), &version))
	return path, symbols, version
}

func TestReleaseHoldsNothing(t *testing.T) {
	path, symbols, version := sidecar(t)
	require.Empty(t, ours.FindAllString(symbols, -1))
	require.Equal(t, "absent", version["fault_injection"])
	require.NotContains(t, version, "fault_points")
	image, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, text := range []string{"REPLICANT_FAILPOINT", "SIGKILL to this process", declared[0].Meaning, string(DeliverAfter)} {
		require.NotContains(t, string(image), text)
	}

	cmd := exec.Command(path, "version")
	cmd.Env = []string{"REPLICANT_FAILPOINTS=nothing.such=kill"}
	require.NoError(t, cmd.Run(), "it has no such variable")
}

func TestTestBuildHoldsAll(t *testing.T) {
	path, symbols, version := sidecar(t, "-tags", "failpoints")
	require.NotEmpty(t, ours.FindAllString(symbols, -1), "the check of the release binary would see nothing")
	image, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(image), declared[0].Meaning)
	require.Equal(t, "present", version["fault_injection"])
	require.Len(t, version["fault_points"], len(declared))

	cmd := exec.Command(path, "version")
	cmd.Env = []string{"REPLICANT_FAILPOINTS=nothing.such=kill"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.Error(t, cmd.Run())
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), `there is no point "nothing.such"`)
}
