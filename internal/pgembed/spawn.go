package pgembed

import (
	"os"
	"os/exec"
	"runtime"
)

// child is a started process and the news of its end.
type child struct {
	pid     int
	process *os.Process
	done    chan struct{} // closed when the process has been waited for
	err     error         // valid after done
}

// spawn starts cmd. On Linux the signal for "the parent died" is tied to the
// thread that forked, so the goroutine that forks is locked to its thread and
// stays there, waiting for the child, until the child ends.
func spawn(cmd *exec.Cmd) (*child, error) {
	c := &child{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		c.pid, c.process = cmd.Process.Pid, cmd.Process
		started <- nil
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// ended reports whether the process has ended.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
