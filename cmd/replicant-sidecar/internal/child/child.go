// Package child runs a sink's process beside the sidecar: in a process group of its own,
// so that a Ctrl-C at the terminal reaches it only through us, with its output prefixed
// line by line, and with nothing left behind when it is stopped.
//
// A child is never restarted here. Who wants that has a supervisor above the sidecar.
package child

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// ListenEnv tells the child where to listen: unix:/path or host:port.
const ListenEnv = "REPLICANT_SINK_LISTEN"

// GraceDefault is how long a child may take to end after it was asked to.
const GraceDefault = 10 * time.Second

// Options says what to start.
type Options struct {
	// Args is the command and its arguments.
	Args []string
	// Listen is handed to the child as REPLICANT_SINK_LISTEN.
	Listen string
	// Stdout and Stderr get the child's lines, each with Prefix before it.
	Stdout, Stderr io.Writer
	Prefix         string
	// Grace is the time between SIGTERM and SIGKILL; GraceDefault when 0.
	Grace time.Duration
}

// Child is a started process group.
type Child struct {
	grace   time.Duration
	pid     int
	done    chan struct{} // closed when the command itself has ended
	code    int           // valid after done
	kill    chan struct{} // closed to cut the grace short
	once    sync.Once
	outputs []*output
}

// Start starts the command. The error says what is wrong with the command itself.
func Start(o Options) (*Child, error) {
	if len(o.Args) == 0 {
		return nil, errors.New("no command")
	}
	c := &Child{grace: o.Grace, done: make(chan struct{}), kill: make(chan struct{})}
	if c.grace <= 0 {
		c.grace = GraceDefault
	}
	cmd := exec.Command(o.Args[0], o.Args[1:]...)
	cmd.Env = append(os.Environ(), ListenEnv+"="+o.Listen)
	cmd.SysProcAttr = Attributes()
	out, err := newOutput(o.Stdout, o.Prefix)
	if err != nil {
		return nil, err
	}
	errs, err := newOutput(o.Stderr, o.Prefix)
	if err != nil {
		out.abandon()
		return nil, err
	}
	c.outputs = []*output{out, errs}
	// Files, not writers: with writers Wait would wait for everybody who inherited them.
	cmd.Stdout, cmd.Stderr = out.write, errs.write
	if err := c.spawn(cmd); err != nil {
		out.abandon()
		errs.abandon()
		return nil, plain(err)
	}
	out.start()
	errs.start()
	return c, nil
}

// spawn starts the command on a thread that stays until the command ends: on Linux the
// signal for "the parent died" belongs to the thread that forked, not to the process.
func (c *Child) spawn(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the state says more than the error
		c.code = exitCode(cmd.ProcessState)
		close(c.done)
	}()
	return <-started
}

// plain leaves out which system call failed and keeps name and reason.
func plain(err error) error {
	var execErr *exec.Error
	if errors.As(err, &execErr) {
		return execErr
	}
	return err
}

// PID is the command's process id, which is the id of its group too.
func (c *Child) PID() int { return c.pid }

// Done is closed when the command itself has ended, for whatever reason.
func (c *Child) Done() <-chan struct{} { return c.done }

// Code is the command's exit code after Done, as a shell gives it: 128 + n after signal n.
func (c *Child) Code() int { return c.code }

// Kill cuts the grace of a Stop that is under way short.
func (c *Child) Kill() { c.once.Do(func() { close(c.kill) }) }

// Stop asks the whole group to end, kills what has not ended after the grace, and
// returns when no process of the group is left and all output was passed on. It may be
// called after the command has ended: a process it left behind is stopped too.
func (c *Child) Stop() {
	limit := time.NewTimer(c.grace)
	defer limit.Stop()
	c.signal(syscall.SIGTERM)
	if !c.gone(limit.C, c.kill) {
		c.signal(syscall.SIGKILL)
		c.gone(time.After(killMax), nil)
	}
	for _, o := range c.outputs {
		o.finish()
	}
}

// killMax bounds the wait for a killed process that is stuck in the kernel.
const killMax = 5 * time.Second

// groupPoll is how often it is looked whether the group has ended.
const groupPoll = 10 * time.Millisecond

// gone waits until the group is empty; false when limit or cut came first.
func (c *Child) gone(limit <-chan time.Time, cut <-chan struct{}) bool {
	tick := time.NewTicker(groupPoll)
	defer tick.Stop()
	for {
		if c.empty() {
			return true
		}
		select {
		case <-tick.C:
		case <-limit:
			return false
		case <-cut:
			return false
		}
	}
}

// empty reports whether the command has ended and no other process of its group is left.
func (c *Child) empty() bool {
	select {
	case <-c.done:
	default:
		return false
	}
	// As process 1 of a container we inherit what the command left behind.
	for {
		if pid, err := syscall.Wait4(-c.pid, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			break
		}
	}
	return !c.signal(0) || !living(c.pid)
}

// signal reaches every process of the group; false when there is none. The number of
// the group is not given to another one while a process of it lives.
func (c *Child) signal(s syscall.Signal) bool {
	return syscall.Kill(-c.pid, s) == nil
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
