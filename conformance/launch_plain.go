package conformance

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// killMax bounds the wait for a killed process that is stuck in the kernel.
const killMax = 10 * time.Second

type plainLauncher struct{}

// PlainLauncher starts commands in a process group of their own. What leaves the group
// is found by its environment or by its parents, where the system shows them. What gives up
// all three before the command is asked to end is not found.
func PlainLauncher() Launcher { return plainLauncher{} }

// plainProcess is a group, and what left it.
type plainProcess struct {
	cmd  *exec.Cmd
	mark string
	// over is closed when the command ended, done when nothing of it is left.
	over, done chan struct{}
	once       sync.Once

	mu sync.Mutex
	// below are the processes under the command when it was last asked to end.
	below []lineage
}

// lineage names a process for good: its number, and when it began in the kernel's clock.
type lineage struct {
	pid   int
	began string
}

// look takes down who is below the command, while the kernel still tells: whoever outlives
// its parent is nobody's.
func (p *plainProcess) look() {
	select {
	case <-p.over:
		return
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.below = append(p.below, descendants(p.cmd.Process.Pid)...)
}

// outlived are those of them that still run.
func (p *plainProcess) outlived() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []int
	for _, l := range p.below {
		if l.runs() {
			left = append(left, l.pid)
		}
	}
	return left
}

// Launch starts the command on a thread that stays until it ends: on Linux the signal
// for "the parent died" belongs to the thread that forked.
func (plainLauncher) Launch(_ context.Context, c Command) (Process, error) {
	if err := lookPath(c.Args[0]); err != nil {
		return nil, err
	}
	p := &plainProcess{cmd: exec.Command(c.Args[0], c.Args[1:]...), over: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.Env, c.Dir, c.Output, c.Output
	p.cmd.SysProcAttr = plainAttributes()
	p.cmd.WaitDelay = time.Second // somebody else may hold its output open
	for _, v := range c.Env {
		if strings.HasPrefix(v, ListenEnv+"=") {
			p.mark = v
		}
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // the state says more than the error
		close(p.over)
		p.sweep()
		close(p.done)
	}()
	return p, <-started
}

// Kill ends all of it.
func (p *plainProcess) Kill() error {
	p.once.Do(func() { p.look(); p.signal(syscall.SIGKILL) })
	select {
	case <-p.done:
		return nil
	case <-time.After(killMax):
		return errors.New("a killed process is not gone")
	}
}

// Terminate asks the command to end.
func (p *plainProcess) Terminate() error {
	p.look()
	return p.cmd.Process.Signal(syscall.SIGTERM)
}

// Done is closed when nothing of it is left.
func (p *plainProcess) Done() <-chan struct{} { return p.done }

// Ended says how the command ended.
func (p *plainProcess) Ended() string {
	select {
	case <-p.over:
		return strings.TrimSuffix(p.cmd.ProcessState.String(), " (core dumped)")
	default:
		return ""
	}
}

// signal reaches the group. Its number is not given away while a process of it lives,
// and the command itself is not waited for before over.
func (p *plainProcess) signal(s syscall.Signal) {
	select {
	case <-p.over:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// sweep kills what the command left behind, in its group and outside of it.
func (p *plainProcess) sweep() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	for end := time.Now().Add(killMax); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		left := append(marked(p.mark), p.outlived()...)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
