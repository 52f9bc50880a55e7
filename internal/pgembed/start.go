package pgembed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// startTimeout bounds one start of a server, crash recovery included.
const startTimeout = 90 * time.Second

// Start finds Postgres, makes a cluster and starts it. It returns when the
// server takes connections. The caller must Close the server; should it be
// killed first, the server ends by itself and its directory is removed.
func Start(ctx context.Context, opts Options) (*Server, error) {
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	bin := opts.Binaries
	if bin.Dir == "" {
		if bin, err = Find(ctx, opts.Major, opts.Find); err != nil {
			return nil, err
		}
	}
	_, _ = sweep(tempRoot(ctx, who), who) // a leftover that stays is no reason not to start
	if bin, err = reachable(ctx, bin, who); err != nil {
		return nil, err
	}
	dir, err := makeWorkdir(ctx, opts, who)
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, opts: opts, who: who, dir: dir, port: 5432}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin fills the directory and starts the server in it. From its first step
// on the directory is cleaned up even if we are killed.
func (s *Server) begin(ctx context.Context) (err error) {
	if err := s.guard(); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if s.opts.TCP {
			if s.port, err = freePort(); err != nil {
				return err
			}
		}
		if err := s.writeSettings(); err != nil {
			return err
		}
		err := s.launch(ctx)
		// Somebody may take the port between our look and the server's.
		if err == nil || !s.opts.TCP || attempt == 3 || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
}

// guard has a throw-away directory cleaned up even if we are killed.
func (s *Server) guard() (err error) {
	if !s.dir.throwAway {
		return nil
	}
	if s.claim, err = s.dir.claim(); err != nil {
		return err
	}
	s.reaper, err = startReaper(s.dir, s.who)
	return err
}

// prepare makes the cluster unless there is one.
func (s *Server) prepare(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(s.dir.data(), "PG_VERSION"))
	if err == nil && s.opts.TCP {
		return errors.New("TCP needs a fresh directory: the password of an old one is not known")
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = s.initdb(ctx)
	}
	return err
}

func (s *Server) initdb(ctx context.Context) error {
	args := []string{
		"--no-sync", "-U", "postgres", "-E", "UTF8", "--locale=C",
		"--auth-local=trust", "--auth-host=scram-sha-256", "-D", s.dir.data(),
	}
	pwfile := filepath.Join(s.dir.base, "pw")
	s.password = randomHex(16)
	if err := os.WriteFile(pwfile, []byte(s.password+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(pwfile)
	if err := s.who.own(pwfile); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(s.dir.base, "initdb.log"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(s.bin.Path("initdb"), append(args, "--pwfile", pwfile)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir.base, cleanEnv(), attr(s.who)
	cmd.Stdout, cmd.Stderr = out, out
	c, err := spawn(cmd)
	if err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-c.done
		return ctx.Err()
	}
	if c.err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("initdb of Postgres %s: %w\n%s", s.bin.Version, c.err, text)
	}
	return nil
}

// writeSettings puts our settings into a file of their own that
// postgresql.conf includes, so that ALTER SYSTEM still wins over them.
func (s *Server) writeSettings() error {
	conf := s.opts.settings()
	conf["unix_socket_directories"] = s.dir.base
	conf["port"] = fmt.Sprint(s.port)
	conf["listen_addresses"] = ""
	if s.opts.TCP {
		conf["listen_addresses"] = "127.0.0.1"
	}
	path := filepath.Join(s.dir.data(), "replicant.conf")
	_, err := os.Stat(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err := os.WriteFile(path, []byte(render(conf)), 0o600); err != nil {
		return err
	}
	if err := s.who.own(path); err != nil || !fresh {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\ninclude 'replicant.conf'\n")
	return errors.Join(err, f.Close())
}

// freePort asks the system for a port that nobody uses at this moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
