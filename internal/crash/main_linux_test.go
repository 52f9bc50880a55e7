//go:build amd64 || arm64

package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// childEnv makes this binary one of the programs that the tests run.
const childEnv = "CRASH_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		syscall.Exit(child(mode, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// The child of TestSignalsAddNoCall works in the first thread, which the kernel prefers
// when it has a signal for the process.
func init() {
	if os.Getenv(childEnv) == "signals" {
		runtime.LockOSThread()
	}
}

func child(mode string, args []string) int {
	var err error
	switch mode {
	case "records":
		err = writeRecords(args[0], args[1])
	case "threads":
		err = writeInThreads(args[0], args[1])
	case "tree":
		err = writeInChildren(args[0], args[1])
	case "leaves":
		err = leaveBehind(args[0])
	case "network":
		err = talk(args[0])
	case "supervisor":
		err = superviseUntilKilled(args)
	case "signals":
		err = writeUnderSignals(args[0], args[1])
	case "openat2":
		err = openTwice(args[0])
	case "foreign":
		_, _, err = syscall.RawSyscall(foreign+unix.SYS_GETPID, 0, 0, 0)
	case "uring":
		if _, _, e := syscall.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0); e == syscall.ENOSYS {
			return 4
		}
	case "forbidden":
		err = startForbidden()
	}
	if err != nil {
		fmt.Println(err)
		if errors.Is(err, syscall.ENOSPC) {
			return 3
		}
		return 1
	}
	fmt.Println("done")
	return 0
}

func record(i int) string { return fmt.Sprintf("record %d of the file\n", i) }

// writeRecords makes 1 + 2n storage calls: open, and a write and a sync a record.
func writeRecords(file, n string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	times, _ := strconv.Atoi(n)
	for i := range times {
		if _, err := f.WriteString(record(i)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// options run this binary as a child.
func options(mode string, args ...string) Options {
	return Options{Args: append([]string{os.Args[0]}, args...), Env: append(os.Environ(), childEnv+"="+mode)}
}

// ended is a finished run.
type ended struct {
	Result
	out string
}

func run(t *testing.T, o Options) ended {
	t.Helper()
	var out bytes.Buffer
	o.Stdout, o.Stderr = &out, &out
	r, err := Start(t.Context(), o)
	require.NoError(t, err)
	result, err := r.Wait()
	require.NoError(t, err)
	require.Empty(t, descendants(r.cmd.Process.Pid))
	return ended{result, out.String()}
}

func killed(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGKILL }

func TestEveryPointOfRecords(t *testing.T) {
	const records = 3
	names := []string{"openat", "write", "fsync", "write", "fsync", "write", "fsync"}
	for n := 1; ; n++ {
		file := filepath.Join(t.TempDir(), "file")
		o := options("records", file, strconv.Itoa(records))
		pid := 0
		o.At, o.Observe = n, func(c Call) { pid = c.Process.PID() }
		got := run(t, o)
		if got.Hit == nil {
			require.Equal(t, len(names)+1, n, "every call was reached, and then none")
			require.True(t, got.Status.Exited() && got.Status.ExitStatus() == 0)
			require.Equal(t, "done\n", got.out)
			require.Equal(t, len(names), got.Count)
			return
		}
		require.Less(t, n, 100)
		require.True(t, killed(got.Status), "%v", got.Status)
		require.Equal(t, n, got.Count)
		require.Equal(t, n, got.Hit.Ordinal)
		require.Equal(t, names[n-1], got.Hit.Syscall)
		require.Equal(t, pid, got.Hit.PID)
		require.Contains(t, got.Hit.Title, file)
		require.NotContains(t, got.out, "done")

		text, err := os.ReadFile(file)
		if n == 1 {
			require.ErrorIs(t, err, os.ErrNotExist, "the open was not made")
			continue
		}
		require.NoError(t, err)
		var want strings.Builder
		for i := range (n - 1) / 2 {
			want.WriteString(record(i))
		}
		require.Equal(t, want.String(), string(text), "before call %d, %s", n, names[n-1])
	}
}

func TestDiskFull(t *testing.T) {
	for n := 1; n <= 5; n++ {
		file := filepath.Join(t.TempDir(), "file")
		o := options("records", file, "2")
		o.At, o.Action = n, DiskFull
		got := run(t, o)
		require.Equal(t, n, got.Hit.Ordinal)
		require.Equal(t, 1, got.Refused)
		require.Equal(t, 3, got.Status.ExitStatus(), got.out)
		require.Contains(t, got.out, "no space left on device")
	}
	file := filepath.Join(t.TempDir(), "file")
	script := `echo a > "$0" || echo refused; echo b > "$0" || echo refused; echo c > "$0" || echo refused; rm -f "$0" && echo removed`
	o := Options{Args: []string{"/bin/sh", "-c", script, file}, At: 2, Action: DiskFull}
	require.Equal(t, 1, strings.Count(run(t, o).out, "refused"), "the disk had room again")
	o.Action = DiskStaysFull
	got := run(t, o)
	require.Equal(t, 3, strings.Count(got.out, "refused"))
	require.Equal(t, 3, got.Refused)
	require.Contains(t, got.out, "removed", "room is not needed to remove a file")
}

func TestEqualCounts(t *testing.T) {
	var before []string
	for i := range 4 {
		var names []string
		o := options("records", filepath.Join(t.TempDir(), "file"), "20")
		o.Observe = func(c Call) { names = append(names, c.Name) }
		got := run(t, o)
		require.Equal(t, 41, got.Count)
		require.Len(t, names, 41)
		if i > 0 {
			require.Equal(t, before, names)
		}
		before = names
	}
}

func TestCannotStart(t *testing.T) {
	_, err := Start(t.Context(), Options{})
	require.Error(t, err)
	_, err = Start(t.Context(), Options{Args: []string{"no-such-program-anywhere"}})
	require.ErrorIs(t, err, exec.ErrNotFound)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("#!/no/such/interpreter\n"), 0o755))
	_, err = Start(t.Context(), Options{Args: []string{file}})
	require.ErrorIs(t, err, syscall.ENOENT)
	require.ErrorContains(t, err, "exec of "+file)

	_, err = Start(t.Context(), Options{Args: []string{"/bin/sh"}, Dir: "/no/such/folder"})
	require.Error(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Start(over, Options{Args: []string{"/bin/sh", "-c", "exit 0"}})
	require.ErrorIs(t, err, context.Canceled)
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 90*time.Second, 2*time.Millisecond, what)
}
