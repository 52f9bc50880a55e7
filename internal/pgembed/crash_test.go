package pgembed_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// orphan is a server whose parent is a process of ours that gets killed. It
// lives in a temporary directory of its own, where no other program sweeps.
type orphan struct {
	parent     *exec.Cmd
	temp, dir  string
	postmaster int
}

func (o orphan) dsn() string {
	return "postgres://postgres@/postgres?sslmode=disable&host=" + o.dir
}

func startOrphan(t *testing.T) orphan {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("looks at /proc")
	}
	temp, err := os.MkdirTemp("/tmp", "pgt")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(temp) })
	require.NoError(t, os.Chmod(temp, 0o777|os.ModeSticky))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"=1", "TMPDIR="+temp)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the child did not start a server")
	dir := lines.Text()
	require.True(t, lines.Scan())
	pid, err := strconv.Atoi(lines.Text())
	require.NoError(t, err)
	require.DirExists(t, dir)
	require.NotEmpty(t, workers(dir))
	require.Equal(t, temp, filepath.Dir(dir))
	return orphan{parent: cmd, temp: temp, dir: dir, postmaster: pid}
}

// workers returns the processes that work in a server's directory.
func workers(dir string) []int {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	var out []int
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(cwd, dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			out = append(out, pid)
		}
	}
	return out
}

// reaperOf returns the process that would clean a directory.
func reaperOf(t *testing.T, dir string) int {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), "replicant-pg-reaper\x00"+dir+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			return pid
		}
	}
	t.Fatal("no reaper")
	return 0
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}

// kill -9 of the process that started a server: no process, no file is left,
// and nobody has to start anything for that.
func TestKilledParentLeavesNothing(t *testing.T) {
	o := startOrphan(t)
	require.NoError(t, o.parent.Process.Kill())
	require.Eventually(t, func() bool { return len(workers(o.dir)) == 0 }, 5*time.Second, 20*time.Millisecond,
		"the kernel tells the server at once")
	require.Eventually(t, func() bool { return gone(o.dir) }, 20*time.Second, 20*time.Millisecond)
}

// The server crashed before its parent did, and a backend still computes.
func TestKilledParentOfACrashedServerLeavesNothing(t *testing.T) {
	o := startOrphan(t)
	busy := startBusy(t, o.dsn())
	require.NoError(t, syscall.Kill(o.postmaster, syscall.SIGKILL))
	require.NotEmpty(t, workers(o.dir))
	require.NoError(t, o.parent.Process.Kill())
	require.Eventually(t, func() bool { return len(workers(o.dir)) == 0 && gone(o.dir) }, 20*time.Second, 20*time.Millisecond)
	require.Error(t, <-busy)
}

// The reaper is killed too: the next start removes what is left.
func TestNextStartSweepsWhatIsLeft(t *testing.T) {
	o := startOrphan(t)
	require.NoError(t, syscall.Kill(reaperOf(t, o.dir), syscall.SIGKILL))
	t.Setenv("TMPDIR", o.temp)
	removed, err := pgembed.Sweep(t.Context())
	require.NoError(t, err)
	require.Empty(t, removed, "its owner lives")
	require.NoError(t, syscall.Kill(o.postmaster, 0))

	require.NoError(t, o.parent.Process.Kill())
	_ = o.parent.Wait()
	require.DirExists(t, o.dir)
	s, err := pgembed.Start(t.Context(), pgembed.Options{Find: pgembed.FindOptions{Checkout: true}})
	require.NoError(t, err)
	defer s.Close()
	require.True(t, gone(o.dir))
	require.Empty(t, workers(o.dir))
}

// A server that does not obey is killed, postmaster and children, and a
// directory with a similar name is not its directory.
func TestSweepEndsAServerThatHangs(t *testing.T) {
	pg := pgtest.Own(t, 18, pgembed.Options{})
	other := pgtest.Own(t, 18, pgembed.Options{})
	require.NoError(t, syscall.Kill(pg.PID(), syscall.SIGSTOP))
	require.NoError(t, pgembed.EndServers(pg.DataDir(), syscall.SIGQUIT, 300*time.Millisecond))
	require.Empty(t, workers(pg.Dir()))
	require.Eventually(t, func() bool { return !pg.Running() }, 5*time.Second, 10*time.Millisecond)
	require.True(t, other.Running())
	require.NoError(t, pgembed.EndServers(other.DataDir()[:len(other.DataDir())-1], syscall.SIGKILL, time.Second))
	require.True(t, other.Running())
}

// What does not carry our mark is not ours, whatever its name.
func TestSweepLeavesStrangersAlone(t *testing.T) {
	for name, mark := range map[string]string{"none": "", "foreign": "hello", "half": `{"program":"replicant-sidecar pgembed"}`} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "replicant-pg-")
			require.NoError(t, err)
			defer os.RemoveAll(dir)
			if mark != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "owner"), []byte(mark), 0o600))
			}
			removed, err := pgembed.Sweep(t.Context())
			require.NoError(t, err)
			require.NotContains(t, removed, dir)
			require.DirExists(t, dir)
		})
	}
}
