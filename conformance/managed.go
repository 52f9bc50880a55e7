package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// ListenEnv tells a sink that we start where to listen, as the sidecar does.
const ListenEnv = "REPLICANT_SINK_LISTEN"

// ManagedOptions says how to start a sink. Args is required.
type ManagedOptions struct {
	// Args is the command. It must stay in the foreground: when it ends, the sink ended.
	Args []string
	// Env is the whole environment but ListenEnv; this process's own when nil.
	Env []string
	Dir string
	// Launcher starts it; PlainLauncher when nil.
	Launcher Launcher
}

// Managed is a sink that we start, kill and restart.
type Managed struct {
	options ManagedOptions
	output  output
	dir     string

	mu      sync.Mutex
	process Process
}

// NewManaged makes a target of a command. Nothing is started yet. Close ends it.
func NewManaged(o ManagedOptions) (*Managed, error) {
	if len(o.Args) == 0 {
		return nil, errors.New("no command")
	}
	if o.Launcher == nil {
		o.Launcher = PlainLauncher()
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	// Short: a unix socket's path takes about a hundred bytes.
	dir, err := os.MkdirTemp("", "rconf")
	if err != nil {
		return nil, err
	}
	return &Managed{options: o, dir: dir}, nil
}

func (m *Managed) socket() string { return filepath.Join(m.dir, "s") }

// Address is a unix socket in a private folder.
func (m *Managed) Address() string { return "unix:" + m.socket() }

// Mode is that of a report.
func (*Managed) Mode() string { return "managed" }

// Lifecycle reports that it can be killed and started.
func (*Managed) Lifecycle() bool { return true }

// Output is the last of what it printed.
func (m *Managed) Output() string { return m.output.String() }

// Printed is how many bytes it printed, OutputSince the last of those after so many.
func (m *Managed) Printed() int64 { return m.output.Printed() }

// OutputSince is told what Printed was.
func (m *Managed) OutputSince(mark int64) string { return m.output.Since(mark) }

// Ended says how the command ended; "" while it runs, or before it was started.
func (m *Managed) Ended() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return ""
	}
	return m.process.Ended()
}

// Start starts the command. The socket that a killed one left is removed, as it is when
// a sidecar starts its sink.
func (m *Managed) Start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		if m.process.Ended() == "" {
			return nil
		}
		select { // until what it left behind is gone
		case <-m.process.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := os.Remove(m.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p, err := m.options.Launcher.Launch(ctx, Command{
		Args: m.options.Args, Env: append(m.options.Env[:len(m.options.Env):len(m.options.Env)], ListenEnv+"="+m.Address()),
		Dir: m.options.Dir, Output: &m.output,
	})
	if err != nil {
		return err
	}
	m.process = p
	return nil
}

func (m *Managed) current() Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// Kill ends it and all that it started.
func (m *Managed) Kill(ctx context.Context) error {
	p := m.current()
	if p == nil {
		return nil
	}
	killed := make(chan error, 1)
	go func() { killed <- p.Kill() }()
	select {
	case err := <-killed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the sink was killed and is not gone: %w", ctx.Err())
	}
}

// Stop asks it to end. What does not end before the context is killed, and an error.
func (m *Managed) Stop(ctx context.Context) error {
	p := m.current()
	if p == nil || p.Ended() != "" {
		return nil
	}
	if err := p.Terminate(); err != nil {
		return err
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("the sink did not end after SIGTERM"), m.Kill(context.WithoutCancel(ctx)))
	}
}

// Close kills it and removes its socket.
func (m *Managed) Close() error {
	return errors.Join(m.Kill(context.Background()), os.RemoveAll(m.dir))
}
