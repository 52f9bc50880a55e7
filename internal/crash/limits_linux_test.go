//go:build amd64 || arm64

package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// startForbidden forbids seccomp to this process, as many containers do, and starts a
// run.
func startForbidden() error {
	runtime.LockOSThread()
	program := []unix.SockFilter{
		load(atNumber),
		jump(unix.BPF_JEQ, unix.SYS_SECCOMP, 0, 4),
		load(atArg(0)),
		jump(unix.BPF_JEQ, unix.SECCOMP_SET_MODE_FILTER, 0, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
		answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return e
	}
	_, err := Start(context.Background(), Options{Args: []string{"/bin/sh", "-c", "echo it ran"}, Stdout: os.Stdout})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("not the error of the contract: %w", err)
	}
	fmt.Println(err)
	return nil
}

func TestForbidden(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=forbidden")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "calls of a process cannot be intercepted here: seccomp filter: operation not permitted")
	require.NotContains(t, string(out), "it ran")
}

func TestNestedIsUnavailable(t *testing.T) {
	o := options("supervisor", "/bin/sh", "-c", "echo it ran")
	got := run(t, o)
	require.Equal(t, 1, got.Status.ExitStatus())
	require.Contains(t, got.out, "seccomp filter: device or resource busy", "one listener for a process, says the kernel")
}

func TestAccount(t *testing.T) {
	// Without root only the own account can be had.
	uid, gid := os.Getuid(), os.Getgid()
	credential := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}
	if uid == 0 {
		uid, gid = 65534, 65534
		credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	got := run(t, Options{Args: []string{"/bin/sh", "-c", "id -u; id -g; grep NoNewPrivs /proc/self/status"}, Credential: credential, Dir: "/"})
	require.Equal(t, fmt.Sprintf("%d\n%d\nNoNewPrivs:\t1\n", uid, gid), got.out)
}

func TestProgramSeesNothingOfUs(t *testing.T) {
	script := `env; ls -l /proc/$$/fd | sed 's/.* \([0-9]* -> \)/\1/'; echo "$0 $1"; pwd`
	dir := t.TempDir()
	got := run(t, Options{Args: []string{"/bin/sh", "-c", script, "zero", "one two"}, Env: []string{"A=b"}, Dir: dir})
	require.Contains(t, got.out, "A=b\n")
	require.NotContains(t, got.out, "REPLICANT_CRASH")
	require.NotContains(t, got.out, "seccomp")
	require.NotContains(t, got.out, "socket:")
	require.Contains(t, got.out, "zero one two\n"+dir+"\n")
}

func TestNoDescriptorLeaks(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	run(t, Options{Args: []string{"/bin/sh", "-c", "exit 0"}})
	before := open()
	for i := range 5 {
		o := options("records", filepath.Join(t.TempDir(), "file"), "2")
		o.At = i
		run(t, o)
		_, err := Start(t.Context(), Options{Args: []string{"/bin/sh"}, Dir: "/no/such/folder"})
		require.Error(t, err)
	}
	require.Equal(t, before, open())
}

func TestOpensThatCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x\n"), 0o600))
	got := run(t, Options{Args: []string{"/bin/sh", "-c", `cat "$0" "$0"; read x < "$0"; : >> "$0"; : > "$0"; echo to /dev/null > /dev/null`, file}, Classes: Create | Write})
	require.Equal(t, 3, got.Count, "three that may create or cut; no read, no write to a device")
}

func TestUringIsRefused(t *testing.T) {
	require.Equal(t, 4, run(t, options("uring")).Status.ExitStatus())
}

func TestForeignCallsDie(t *testing.T) {
	if foreign == 0 {
		return // no other calls can be made by a program of this architecture
	}
	got := run(t, options("foreign"))
	require.True(t, got.Status.Signaled())
	require.Equal(t, syscall.SIGSYS, got.Status.Signal())
}

// openTwice opens a file to read it, and a new one, by openat2.
func openTwice(dir string) error {
	for _, flags := range []uint64{unix.O_RDONLY | unix.O_DIRECTORY, unix.O_WRONLY | unix.O_TMPFILE} {
		how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC}
		if flags&unix.O_WRONLY != 0 {
			how.Mode = 0o600
		}
		fd, err := unix.Openat2(unix.AT_FDCWD, dir, &how)
		if err != nil {
			return err
		}
		_ = unix.Close(fd)
	}
	return nil
}

func TestOpenat2(t *testing.T) {
	got := run(t, options("openat2", t.TempDir()))
	require.Equal(t, "done\n", got.out)
	require.Equal(t, 1, got.Count, "only the one that makes a file")
}

// writeUnderSignals writes records while a child sends signals that have a handler.
func writeUnderSignals(file, n string) error {
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, syscall.SIGUSR1)
	storm := exec.Command("/bin/sh", "-c", `while kill -USR1 $PPID; do :; done`)
	if err := storm.Start(); err != nil {
		return err
	}
	<-arrived
	err := writeRecords(file, n)
	select {
	case <-arrived:
	default:
		err = errors.New("no signal arrived meanwhile")
	}
	return errors.Join(err, storm.Process.Kill(), ignore(storm.Wait()))
}

func ignore(error) error { return nil }

func TestSignalsAddNoCall(t *testing.T) {
	for range 3 {
		got := run(t, options("signals", filepath.Join(t.TempDir(), "file"), "100"))
		require.Equal(t, "done\n", got.out)
		require.Equal(t, 201, got.Count)
	}
}

// A caller that does not wait any more may have died, and its number may be a stranger's.
func TestStrangerIsNotStruck(t *testing.T) {
	stranger := exec.Command("/bin/sh", "-c", "read x")
	in, err := stranger.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, stranger.Start())
	w := &watcher{listener: listener{-1}, classes: Storage}
	w.arm(Shot{At: 1, Action: KillProcess})
	require.True(t, w.answer(&notification{id: 1, tid: uint32(stranger.Process.Pid), nr: unix.SYS_FSYNC}))
	require.Zero(t, w.result().Count)
	require.Nil(t, w.result().Hit)
	require.NoError(t, in.Close())
	_ = stranger.Wait()
	require.True(t, stranger.ProcessState.Exited(), "it ended by itself")
}
