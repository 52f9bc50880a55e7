package pgembed

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Server is one private Postgres server. Its methods may be called from
// several goroutines; Stop, Kill, Restart and Close take turns.
type Server struct {
	bin      Binaries
	opts     Options
	who      account
	dir      workdir
	port     int
	password string

	mu     sync.Mutex // one change of state at a time
	state  sync.Mutex // guards proc
	proc   *child
	closed bool

	// Only with a throw-away directory.
	claim  *os.File // locked as long as this process lives
	reaper *reaper
}

// launch starts the server program and waits until it takes connections.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	log, err := os.OpenFile(s.dir.log(), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	cmd := exec.Command(s.bin.Path("postgres"), "-D", s.dir.data())
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir.base, cleanEnv(), attr(s.who)
	cmd.Stdout, cmd.Stderr = log, log
	c, err := spawn(cmd)
	if err != nil {
		return err
	}
	s.setProc(c)
	if err := s.ready(ctx, c); err != nil {
		s.signal(c, syscall.SIGKILL)
		<-c.done
		return fmt.Errorf("Postgres %s did not start: %w\n%s", s.bin.Version, err, tail(s.dir.log(), from))
	}
	return nil
}

// Stop ends the server with a fast shutdown and keeps its data for Restart. A
// server that a hanging receiver keeps from shutting down gets an immediate
// shutdown after 10 s. Stopping a stopped server is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop(politely...)
}

// politely is fast shutdown, immediate shutdown, and no more asking.
var politely = []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL}

// stop sends one signal after the other until the postmaster has ended, and
// gives each 10 s.
func (s *Server) stop(signals ...syscall.Signal) error {
	c := s.current()
	if c == nil {
		return nil
	}
	for _, sig := range signals {
		s.signal(c, sig)
		select {
		case <-c.done:
			return nil
		case <-time.After(10 * time.Second):
		}
	}
	return fmt.Errorf("Postgres with pid %d does not end", c.pid)
}

// Kill ends the server as a crash does: SIGKILL to the postmaster. Its children
// notice and end by themselves; those that do not within 2 s are killed. It
// returns when no process is left.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.current()
	if c == nil {
		return errors.New("the server does not run")
	}
	s.signal(c, syscall.SIGKILL)
	<-c.done
	return endServers(s.dir.data(), 0, 2*time.Second)
}

// Restart starts the server on the data it left, after a Stop or a Kill; a
// running server is stopped first. DSN stays the same.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the server is closed")
	}
	if err := s.stop(politely...); err != nil {
		return err
	}
	return s.launch(ctx)
}

// Close ends the server and removes its directory, unless that is to be kept.
// Closing twice is no error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	signals := politely
	if s.dir.throwAway {
		signals = signals[1:] // no one will read the data, no receiver is waited for
	}
	err := s.stop(signals...)
	if s.reaper != nil {
		s.reaper.dismiss()
	}
	if s.dir.throwAway {
		err = errors.Join(err, s.dir.remove())
	}
	if s.claim != nil {
		err = errors.Join(err, s.claim.Close())
	}
	return err
}

// DSN returns the address of a database for the superuser postgres, on the
// unix socket, in URL form. For a replication connection append
// "&replication=database".
func (s *Server) DSN(database string) string {
	q := url.Values{}
	q.Set("host", s.dir.base)
	q.Set("port", fmt.Sprint(s.port))
	q.Set("sslmode", "disable")
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}

// TCPDSN is DSN for the loopback listener; empty when Options.TCP is off. It
// holds the password.
func (s *Server) TCPDSN(database string) string {
	if !s.opts.TCP {
		return ""
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", s.password),
		Host: fmt.Sprintf("127.0.0.1:%d", s.port), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Bin is the installation that runs.
func (s *Server) Bin() Binaries { return s.bin }

// Dir is the server's directory: data, log and socket.
func (s *Server) Dir() string { return s.dir.base }

// DataDir is the cluster's data directory.
func (s *Server) DataDir() string { return s.dir.data() }

// LogPath is the server's log. It may hold statements with values.
func (s *Server) LogPath() string { return s.dir.log() }

// Port is the port number in the socket's name, and of the loopback listener.
func (s *Server) Port() int { return s.port }

// PID is the postmaster's process id; 0 when it does not run.
func (s *Server) PID() int {
	if c := s.current(); c != nil {
		return c.pid
	}
	return 0
}

// Running reports whether the postmaster runs.
func (s *Server) Running() bool { return s.current() != nil }

func (s *Server) setProc(c *child) {
	s.state.Lock()
	defer s.state.Unlock()
	s.proc = c
}

// current returns the running postmaster or nil.
func (s *Server) current() *child {
	s.state.Lock()
	defer s.state.Unlock()
	if s.proc == nil || s.proc.ended() {
		return nil
	}
	return s.proc
}

// signal reaches the postmaster unless it has been waited for already, so
// never a stranger that got its number.
func (s *Server) signal(c *child, sig syscall.Signal) {
	if !c.ended() {
		_ = c.process.Signal(sig)
	}
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
