package programtest

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// initialized is a line of the Go runtime's inittrace: what a package allocated before main.
var initialized = regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`)

// TestNothingLargeIsMadeBeforeMain: what a package makes at its start is held for as long as
// the program runs, whatever the program does.
func TestNothingLargeIsMadeBeforeMain(t *testing.T) {
	cmd := exec.Command(os.Getenv(built), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	all := initialized.FindAllStringSubmatch(string(out), -1)
	require.NotEmpty(t, all)
	const most = 2 << 20
	for _, line := range all {
		bytes, err := strconv.Atoi(line[2])
		require.NoError(t, err)
		require.Less(t, bytes, most, "package %s", line[1])
	}
}
