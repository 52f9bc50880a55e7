package crashpoint

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// childEnv makes this binary a small sink: "whole" stores rows and position at once,
// "halves" one after the other.
const childEnv = "CRASHPOINT_TEST_SINK"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		fmt.Fprintln(os.Stderr, serveToy(mode, os.Args[1]))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// serveToy answers each word on a unix socket with "ok" once it is stored.
func serveToy(mode, dir string) error {
	_ = os.Remove(filepath.Join(dir, "sock"))
	if mode == "restless" {
		go scribbleToy(dir)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		words := bufio.NewScanner(conn)
		for words.Scan() {
			if err := storeToy(mode, dir, words.Text()); err != nil {
				return err
			}
			fmt.Fprintln(conn, "ok")
		}
		_ = conn.Close()
	}
}

func storeToy(mode, dir, word string) error {
	switch mode {
	case "whole", "restless":
		return writeToy(dir, "state", word+" "+word)
	case "ends":
		return errors.New("for no reason")
	}
	// A row, then its position, each of which is safe for itself.
	return errors.Join(writeToy(dir, "row", word), writeToy(dir, "position", word))
}

// scribbleToy writes without end.
func scribbleToy(dir string) {
	f, err := os.Create(filepath.Join(dir, "noise"))
	for err == nil {
		_, err = f.WriteAt([]byte("x"), 0)
		time.Sleep(100 * time.Microsecond)
	}
}

func writeToy(dir, name, text string) error {
	next := filepath.Join(dir, "next")
	f, err := os.Create(next)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close(), os.Rename(next, filepath.Join(dir, name)))
}

// readToy is the row and the position that are stored.
func readToy(mode, dir string) (row, position string) {
	if mode != "halves" {
		text, _ := os.ReadFile(filepath.Join(dir, "state"))
		row, position, _ = strings.Cut(string(text), " ")
		return row, position
	}
	a, _ := os.ReadFile(filepath.Join(dir, "row"))
	b, _ := os.ReadFile(filepath.Join(dir, "position"))
	return string(a), string(b)
}

// toy is the target of that sink.
type toy struct {
	launcher  conformance.Launcher
	mode, dir string
	process   conformance.Process
	output    bytes.Buffer
	conn      net.Conn
}

func newToy(t *testing.T, mode string, launcher conformance.Launcher) *toy {
	s := &toy{launcher: launcher, mode: mode, dir: t.TempDir()}
	t.Cleanup(func() {
		require.NoError(t, s.Kill(context.Background()))
		if s.conn != nil {
			_ = s.conn.Close()
		}
	})
	return s
}

func (s *toy) Address() string            { return "unix:" + filepath.Join(s.dir, "sock") }
func (s *toy) Output() string             { return s.output.String() }
func (s *toy) Stop(context.Context) error { return errors.ErrUnsupported }

func (s *toy) Start(ctx context.Context) error {
	if s.process != nil && s.process.Ended() == "" {
		return nil
	}
	p, err := s.launcher.Launch(ctx, conformance.Command{
		Args: []string{os.Args[0], s.dir}, Env: append(os.Environ(), childEnv+"="+s.mode), Output: &s.output,
	})
	s.process = p
	return err
}

func (s *toy) Kill(context.Context) error {
	if s.process == nil {
		return nil
	}
	return s.process.Kill()
}

// store sends one word and waits for its answer, on the connection of the words before.
func (s *toy) store(word string) (err error) {
	if s.conn == nil {
		if s.conn, err = net.Dial("unix", filepath.Join(s.dir, "sock")); err != nil {
			s.conn = nil
			return err
		}
	}
	fmt.Fprintln(s.conn, word)
	if _, err = bufio.NewReader(s.conn).ReadString('\n'); err != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
	return err
}

// plan stores a word of which each run has its own.
func (s *toy) plan(limit int) conformance.CrashPlan {
	before := func(n int) string { return fmt.Sprintf("before%d", n) }
	after := func(n int) string { return fmt.Sprintf("after%d", n) }
	acked, prepared := false, map[int]bool{}
	return conformance.CrashPlan{
		Label: "one word", Limit: limit, Seed: 1,
		Prepare: func(_ context.Context, n int) (err error) {
			acked = false
			if prepared[n] {
				return fmt.Errorf("run %d again", n)
			}
			prepared[n] = true
			for range 500 { // until it listens
				if err = s.store(before(n)); err == nil {
					return nil
				}
				time.Sleep(10 * time.Millisecond)
			}
			return err
		},
		Act: func(_ context.Context, n int) error {
			err := s.store(after(n))
			acked = err == nil
			return err
		},
		Judge: func(_ context.Context, n int) (conformance.CrashSide, string, error) {
			row, position := readToy(s.mode, s.dir)
			switch {
			case row == after(n) && position == after(n):
				return conformance.After, "", nil
			case row == before(n) && position == before(n) && !acked:
				return conformance.Before, "", nil
			}
			return conformance.Torn, row + " at " + position, nil
		},
	}
}

// forked starts commands as they are, in a process group of their own.
type forked struct {
	cmd  *exec.Cmd
	done chan struct{}
	once *sync.Once
}

func (forked) Launch(_ context.Context, c conformance.Command) (conformance.Process, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Stderr = c.Env, c.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f := forked{cmd, make(chan struct{}), &sync.Once{}}
	go func() { _ = cmd.Wait(); close(f.done) }()
	return f, nil
}

func (f forked) Kill() error {
	f.once.Do(func() { _ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGKILL) })
	<-f.done
	return nil
}

func (f forked) Terminate() error      { return f.cmd.Process.Signal(syscall.SIGTERM) }
func (f forked) Done() <-chan struct{} { return f.done }

func (f forked) Ended() string {
	select {
	case <-f.done:
		return f.cmd.ProcessState.String()
	default:
		return ""
	}
}
