package child

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/replicant-sidecar/replicant-sidecar/internal/transcript"
)

// The test binary plays the commands: the first argument after this flag says which.
const play = "-play-child"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == play {
		parts[os.Args[2]](os.Args[3:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var parts = map[string]func(args []string){
	"exit": func(args []string) {
		n, _ := strconv.Atoi(args[0])
		os.Exit(n)
	},
	"say": func([]string) {
		fmt.Println("listening on", os.Getenv(ListenEnv))
		fmt.Fprintln(os.Stderr, "to stderr")
		fmt.Print("no line break")
	},
	"flood": func(args []string) { // without one line break
		n, _ := strconv.Atoi(args[0])
		for range n {
			_, _ = os.Stdout.Write(bytes.Repeat([]byte{'x'}, 1<<20))
		}
		fmt.Println("\nafter the flood")
	},
	"deaf": func([]string) {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Minute)
	},
	"polite": func([]string) {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		fmt.Println("bye")
		os.Exit(7)
	},
	"forker": func(args []string) { // leaves a deaf process behind and ends
		grandchild := exec.Command(os.Args[0], play, args[0])
		grandchild.Stdout = os.Stdout
		if err := grandchild.Start(); err != nil {
			panic(err)
		}
		fmt.Println("grandchild", grandchild.Process.Pid)
		time.Sleep(200 * time.Millisecond)
	},
	"parent": func([]string) { // a sidecar that is about to be killed
		c, err := Start(Options{Args: []string{os.Args[0], play, "polite"}, Stdout: os.Stdout, Stderr: os.Stderr})
		if err != nil {
			panic(err)
		}
		for range 20 { // threads come and go; the child must not notice
			go func() { runtime.LockOSThread(); time.Sleep(10 * time.Millisecond) }()
		}
		fmt.Println("child", c.PID())
		time.Sleep(time.Minute)
	},
}

func start(t *testing.T, grace time.Duration, args ...string) (*Child, *transcript.Text) {
	t.Helper()
	var out transcript.Text
	c, err := Start(Options{
		Args: append([]string{os.Args[0], play}, args...), Listen: "unix:/x", Stdout: &out, Stderr: &out, Prefix: "sink | ", Grace: grace,
	})
	require.NoError(t, err)
	return c, &out
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestOutputIsPrefixedAndCodeIsKept(t *testing.T) {
	c, out := start(t, 0, "say")
	<-c.Done()
	c.Stop()
	require.Equal(t, 0, c.Code())
	lines := strings.Split(out.String(), "\n")
	require.ElementsMatch(t, []string{"sink | listening on unix:/x", "sink | to stderr", "sink | no line break", ""}, lines)
	for _, code := range []int{0, 1, 42} {
		c, _ := start(t, 0, "exit", strconv.Itoa(code))
		<-c.Done()
		require.Equal(t, code, c.Code())
		c.Stop()
	}
}

func TestPoliteEnd(t *testing.T) {
	c, out := start(t, time.Minute, "polite")
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "ready") }, 5*time.Second, time.Millisecond)
	c.Stop()
	require.Equal(t, 7, c.Code())
	require.Contains(t, out.String(), "sink | bye\n")
}

func TestDeafChildIsKilledAfterTheGrace(t *testing.T) {
	c, out := start(t, 100*time.Millisecond, "deaf")
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "ready") }, 5*time.Second, time.Millisecond)
	c.Stop()
	require.Equal(t, 128+9, c.Code())
	require.False(t, alive(c.PID()))
}

func TestKillCutsTheGraceShort(t *testing.T) {
	c, out := start(t, time.Hour, "deaf")
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "ready") }, 5*time.Second, time.Millisecond)
	c.Kill()
	c.Stop()
	require.Equal(t, 128+9, c.Code())
}

// What the command left behind is stopped too, deaf or not.
func TestNoProcessOfTheGroupIsLeft(t *testing.T) {
	for _, kind := range []string{"deaf", "polite"} {
		c, out := start(t, 200*time.Millisecond, "forker", kind)
		<-c.Done()
		var pid int
		_, err := fmt.Sscanf(out.String()[strings.Index(out.String(), "grandchild"):], "grandchild %d", &pid)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "ready") }, 5*time.Second, time.Millisecond)
		require.True(t, alive(pid))
		c.Stop()
		require.False(t, alive(pid), kind)
		require.Equal(t, 0, c.Code())
	}
}

// A flood without a line break takes no memory and is told about.
func TestFlood(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, out := start(t, 0, "flood", "64")
	<-c.Done()
	c.Stop()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 3)
	require.Less(t, len(lines[0]), lineMax+100)
	require.Contains(t, lines[0], fmt.Sprintf("(%d bytes cut)", 64<<20+1-lineMax))
	require.Equal(t, "sink | after the flood", lines[1])
}

func TestCommandThatCannotStart(t *testing.T) {
	_, err := Start(Options{Args: []string{"no-such-command-here"}, Stdout: io.Discard, Stderr: io.Discard})
	require.ErrorContains(t, err, "no-such-command-here")
	_, err = Start(Options{Stdout: io.Discard, Stderr: io.Discard})
	require.Error(t, err)
}

// A sidecar that is killed takes its sink with it, whatever its threads did.
func TestChildOfAKilledParentEnds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent died")
	}
	parent := exec.Command(os.Args[0], play, "parent")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	in := bufio.NewScanner(out)
	pid := 0
	for ready := false; !ready || pid == 0; {
		require.True(t, in.Scan())
		_, _ = fmt.Sscanf(in.Text(), "child %d", &pid)
		ready = ready || strings.Contains(in.Text(), "ready")
	}
	time.Sleep(100 * time.Millisecond)
	require.True(t, alive(pid), "the child ended although its parent lives")
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	require.Eventually(t, func() bool { return !alive(pid) }, 5*time.Second, 5*time.Millisecond)
}

func TestSocketFolderIsPrivateAndRemoved(t *testing.T) {
	t.Setenv("TMPDIR", shortDir(t))
	s, err := NewSocket()
	require.NoError(t, err)
	path := strings.TrimPrefix(s.Listen(), "unix:")
	require.Less(t, len(path), 104)
	info, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	other, err := NewSocket() // sweeps, and must leave the living one alone
	require.NoError(t, err)
	require.DirExists(t, filepath.Dir(path))
	require.NoError(t, s.lock.Close()) // as after a kill
	third, err := NewSocket()
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Dir(path))
	require.NoError(t, other.Close())
	require.NoError(t, third.Close())
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "rc")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
