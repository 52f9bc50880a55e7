package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// playEnv makes this binary a sink that misbehaves.
const playEnv = "SUITE_TEST_PLAY"

// lateEnv is how long a sink that listens late takes to start.
const lateEnv = "SUITE_TEST_LATE"

func TestMain(m *testing.M) {
	if as := os.Getenv(playEnv); as != "" {
		if err := play(as); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// play is a sink that does one thing wrong; the others are in the table of faults_test.go.
func play(as string) error {
	listen := os.Getenv(conformance.ListenEnv)
	path := strings.TrimPrefix(listen, "unix:")
	switch as {
	case "nested":
		return nested()
	case "exits at once":
		fmt.Println("no database here")
		os.Exit(7)
	case "hangs":
		l, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		for { // takes connections and says nothing
			if _, err := l.Accept(); err != nil {
				return err
			}
		}
	case "never listens":
		time.Sleep(time.Hour)
	case "answers garbage":
		return garbage(path)
	case "floods":
		go flood(os.Stdout)
		go flood(os.Stderr)
		return serveNothing(path)
	case "forks":
		return fork(path)
	case "goes into the background":
		return background()
	case "listens late":
		late, err := time.ParseDuration(os.Getenv(lateEnv))
		if err != nil {
			return err
		}
		time.Sleep(late)
		return serveNothing(path)
	case "served":
		return serveNothing(path)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		return serveNothing(path)
	case "writes without end":
		go scribble()
		return serveNothing(path)
	}
	return fmt.Errorf("no such play: %s", as)
}

// nested starts a sink where a filter of another supervisor stands already, so that the
// kernel refuses ours.
func nested() error {
	s, err := Open(context.Background(), Settings{Command: []string{os.Args[0]}, Env: []string{playEnv + "=served"}})
	if err != nil {
		return err
	}
	err = s.Target.Start(context.Background())
	fmt.Printf("fallback: %s; %d ways to crash\n", s.Fallback(), len(s.Crashers))
	return errors.Join(err, s.Close())
}

// serveNothing is a gRPC server without any call.
func serveNothing(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	return grpc.NewServer().Serve(l)
}

func garbage(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = conn.Write(bytes.Repeat([]byte("HTTP/1.1 200 OK\r\n\r\n<html>"), 100))
			_, _ = io.Copy(io.Discard, conn)
		}()
	}
}

func flood(w io.Writer) {
	line := bytes.Repeat([]byte("all work and no play "), 200)
	for {
		if _, err := w.Write(append(line, '\n')); err != nil {
			return
		}
	}
}

// fork leaves processes behind: one in our group, one in a session of its own.
func fork(path string) error {
	for _, args := range [][]string{{"sleep", "3601"}, {"setsid", "sleep", "3602"}} {
		if err := exec.Command(args[0], args[1:]...).Start(); err != nil {
			return err
		}
	}
	return serveNothing(path)
}

// background leaves a process behind and ends, as daemons do.
func background() error {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), playEnv+"=never listens")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Start()
}

// scribble writes to a file for ever, and never lets it grow.
func scribble() {
	f, err := os.Create(filepath.Join(os.TempDir(), fmt.Sprintf("scribble%d", os.Getpid())))
	if err != nil {
		return
	}
	_ = os.Remove(f.Name())
	for {
		_, _ = f.WriteAt([]byte("x"), 0)
	}
}
