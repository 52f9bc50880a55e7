package crashpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/internal/crash"
)

// Launcher starts sinks so that their calls to the kernel can be counted, and nothing that
// they started outlives them. Where the machine forbids to watch a process it starts them
// with the plain launcher instead and says so by Unavailable.
type Launcher struct {
	plain conformance.Launcher

	mu   sync.Mutex
	last *crash.Run
	err  error
}

// NewLauncher takes the launcher for machines that forbid to watch.
func NewLauncher(plain conformance.Launcher) *Launcher { return &Launcher{plain: plain} }

// Launch is that of conformance.Launcher. The process outlives ctx.
func (l *Launcher) Launch(ctx context.Context, c conformance.Command) (conformance.Process, error) {
	if l.Unavailable() != nil {
		return l.plain.Launch(ctx, c)
	}
	run, err := crash.Start(context.WithoutCancel(ctx), crash.Options{
		Args: c.Args, Env: c.Env, Dir: c.Dir, Stdout: c.Output, Stderr: c.Output,
		Classes: crash.Storage | crash.Network,
	})
	if errors.Is(err, crash.ErrUnavailable) {
		l.mu.Lock()
		l.err = err
		l.mu.Unlock()
		return l.plain.Launch(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.last = run
	l.mu.Unlock()
	return process{run}, nil
}

// Unavailable is why sinks are not watched; nil while they are, or before the first.
func (l *Launcher) Unavailable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Launcher) current() *crash.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// process is a sink under watch.
type process struct{ run *crash.Run }

func (p process) Kill() error {
	p.run.Kill()
	_, err := p.run.Wait()
	return err
}

func (p process) Terminate() error { return p.run.Signal(syscall.SIGTERM) }

func (p process) Done() <-chan struct{} { return p.run.Done() }

func (p process) Ended() string {
	select {
	case <-p.run.Done():
	default:
		return ""
	}
	result, err := p.run.Wait()
	switch status := result.Status; {
	case err != nil:
		return err.Error()
	case status.Signaled():
		return "signal: " + status.Signal().String()
	default:
		return fmt.Sprintf("exit status %d", status.ExitStatus())
	}
}
