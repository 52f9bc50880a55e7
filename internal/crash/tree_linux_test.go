//go:build amd64 || arm64

package crash

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// writeInThreads writes n records in each of four threads.
func writeInThreads(dir, n string) error {
	errs := make(chan error, 4)
	var ready sync.WaitGroup
	ready.Add(4)
	for i := range 4 {
		go func() {
			runtime.LockOSThread()
			ready.Done()
			ready.Wait()
			errs <- writeRecords(filepath.Join(dir, strconv.Itoa(i)), n)
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// writeInChildren runs three children that write n records each, and says how each ended.
func writeInChildren(dir, n string) error {
	var all []*exec.Cmd
	for i := range 3 {
		cmd := exec.Command(os.Args[0], filepath.Join(dir, strconv.Itoa(i)), n)
		cmd.Env = append(os.Environ(), childEnv+"=records")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: i == 1}
		if err := cmd.Start(); err != nil {
			return err
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		_ = cmd.Wait()
		fmt.Println(cmd.ProcessState)
	}
	return nil
}

// leaveBehind starts a process in a session of its own that nobody waits for, and one
// below that.
func leaveBehind(file string) error {
	cmd := exec.Command("/bin/sh", "-c", `sleep 1000 & echo $! $$ > "$0.new"; mv "$0.new" "$0"; sleep 1001`, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

func talk(address string) error {
	c, err := net.Dial("unix", address)
	if err != nil {
		return err
	}
	defer c.Close()
	for range 2 {
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
	}
	fmt.Println("to a pipe")
	return unix.Sendto(3, nil, 0, nil) // the socket is not at 3; what counts is the call
}

func TestThreadsAreCountedTogether(t *testing.T) {
	got := run(t, options("threads", t.TempDir(), "5"))
	require.Equal(t, 4*(1+2*5), got.Count)

	for _, n := range []int{1, 7, 30, 44} {
		dir := t.TempDir()
		o := options("threads", dir, "5")
		o.At = n
		got := run(t, o)
		require.Equal(t, n, got.Hit.Ordinal)
		require.True(t, killed(got.Status))
		wholeRecords(t, dir)
	}
	o := options("threads", t.TempDir(), "5")
	o.At = 45
	require.Nil(t, run(t, o).Hit)
}

// wholeRecords requires that every file of dir holds a prefix of the records.
func wholeRecords(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		i := 0
		for line := range strings.Lines(string(text)) {
			require.Equal(t, record(i), line)
			i++
		}
	}
}

func TestTreeDiesAsOne(t *testing.T) {
	for n := 1; ; n++ {
		dir := t.TempDir()
		o := options("tree", dir, "2")
		o.At = n
		got := run(t, o)
		if got.Hit == nil {
			require.Equal(t, 3*5+1, n)
			require.Equal(t, []string{"exit status 0", "exit status 0", "exit status 0"}, ends(got.out))
			return
		}
		require.Less(t, n, 100)
		require.True(t, killed(got.Status))
		require.Equal(t, n, got.Count, "after the hit nothing was let through")
		require.NotContains(t, got.out, "done")
		wholeRecords(t, dir)
	}
}

// ends lists how the children ended, in their order.
func ends(out string) []string {
	var all []string
	for line := range strings.Lines(out) {
		if line != "done\n" {
			all = append(all, strings.TrimSuffix(line, "\n"))
		}
	}
	return all
}

func TestOneProcessDies(t *testing.T) {
	dir := t.TempDir()
	o := options("tree", dir, "2")
	o.At, o.Action = 4, KillProcess
	o.Select = func(p Process) bool { return strings.HasSuffix(p.Title(), filepath.Join(dir, "1")+" 2") }
	got := run(t, o)
	require.Equal(t, 4, got.Hit.Ordinal)
	require.Equal(t, "write", got.Hit.Syscall)
	require.NotEqual(t, got.Hit.PID, 0)
	require.Zero(t, got.Status.ExitStatus(), "the parent lived on")
	require.Equal(t, []string{"exit status 0", "signal: killed", "exit status 0"}, ends(got.out))
	text, err := os.ReadFile(filepath.Join(dir, "1"))
	require.NoError(t, err)
	require.Equal(t, record(0), string(text))
	for _, other := range []string{"0", "2"} {
		text, err := os.ReadFile(filepath.Join(dir, other))
		require.NoError(t, err)
		require.Equal(t, record(0)+record(1), string(text))
	}
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }

func pidsIn(t *testing.T, file string) []int {
	t.Helper()
	var text []byte
	eventually(t, "the pids", func() (ok bool) {
		var err error
		text, err = os.ReadFile(file)
		return err == nil && len(text) > 0
	})
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

func TestNothingIsLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	got := run(t, options("leaves", file))
	require.Zero(t, got.Status.ExitStatus())
	for _, pid := range pidsIn(t, file) {
		require.False(t, alive(pid))
	}
}

func TestContextEndsAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	script := `trap '' TERM INT HUP; sleep 1000 & echo $! $$ > "$0"; wait; sleep 1001`
	r, err := Start(ctx, Options{Args: []string{"/bin/sh", "-c", script, file}})
	require.NoError(t, err)
	pids := pidsIn(t, file)
	require.Contains(t, pids, r.PID())
	cancel()
	got, err := r.Wait()
	require.NoError(t, err)
	require.True(t, killed(got.Status))
	for _, pid := range pids {
		require.False(t, alive(pid))
	}
}

func superviseUntilKilled(args []string) error {
	r, err := Start(context.Background(), Options{Args: args, Stdout: os.Stdout})
	if err != nil {
		return err
	}
	_, err = r.Wait()
	return err
}

func TestSupervisorDies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	script := `sleep 1000 & echo $! $$ > "$0"; wait`
	cmd := exec.Command(os.Args[0], "/bin/sh", "-c", script, file)
	cmd.Env = append(os.Environ(), childEnv+"=supervisor")
	require.NoError(t, cmd.Start())
	pids := pidsIn(t, file)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range pids {
		eventually(t, "the tree dies with its supervisor", func() bool { return !alive(pid) })
	}
}

func TestKeeperDies(t *testing.T) {
	in, held, err := os.Pipe()
	require.NoError(t, err)
	defer held.Close()
	r, err := Start(t.Context(), Options{Args: []string{"/bin/sh", "-c", "read x"}, Stdin: in})
	require.NoError(t, err)
	_ = in.Close()
	require.True(t, alive(r.PID()))
	require.NoError(t, r.cmd.Process.Kill())
	eventually(t, "the program dies with its keeper", func() bool { return !alive(r.PID()) })
	_, err = r.Wait()
	require.ErrorContains(t, err, "the keeper was lost")
}

func TestClassesAndArm(t *testing.T) {
	dir := t.TempDir()
	address := filepath.Join(dir, "s")
	l, err := net.Listen("unix", address)
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 10)
			for _, err := c.Read(buf); err == nil; _, err = c.Read(buf) {
			}
			_ = c.Close()
		}
	}()
	var names []string
	o := options("network", address)
	o.Classes = Network
	o.Observe = func(c Call) { names = append(names, c.Name) }
	got := run(t, o)
	require.Equal(t, []string{"connect", "write", "write", "sendto"}, names, "and the write to the pipe does not count: %s", got.out)

	// A shell that waits for its orders is armed when it is where it should be.
	in, orders, err := os.Pipe()
	require.NoError(t, err)
	answers, out, err := os.Pipe()
	require.NoError(t, err)
	r, err := Start(t.Context(), Options{
		Args:  []string{"/bin/sh", "-c", `while read -r word; do echo "$word" >> "$0"; echo ok; done`, filepath.Join(dir, "file")},
		Stdin: in, Stdout: out,
	})
	require.NoError(t, err)
	_, _ = in.Close(), out.Close()
	defer answers.Close()
	lines := bufio.NewScanner(answers)
	for i := range 3 {
		_, _ = fmt.Fprintf(orders, "word%d\n", i)
		require.True(t, lines.Scan())
	}
	require.Equal(t, 6, r.Count(), "an open and a write each")
	r.Arm(Shot{Classes: Write, At: 2, Select: ByPID(r.PID())})
	require.Zero(t, r.Count())
	for i := range 2 {
		_, _ = fmt.Fprintf(orders, "more%d\n", i)
	}
	require.True(t, lines.Scan())
	<-r.Hit()
	require.False(t, lines.Scan())
	_ = orders.Close()
	got2, err := r.Wait()
	require.NoError(t, err)
	require.True(t, killed(got2.Status))
	text, err := os.ReadFile(filepath.Join(dir, "file"))
	require.NoError(t, err)
	require.Equal(t, "word0\nword1\nword2\nmore0\n", string(text))
}
