//go:build !linux || !(amd64 || arm64)

package crash

import (
	"context"
	"errors"
	"syscall"
)

// Process is who makes a call.
type Process struct{}

// TID is the thread.
func (Process) TID() int { return 0 }

// PID is the process.
func (Process) PID() int { return 0 }

// Parent is the process that p is a child of.
func (Process) Parent() int { return 0 }

// Comm is the short name of the thread.
func (Process) Comm() string { return "" }

// Title is the command line.
func (Process) Title() string { return "" }

// Run is a program under supervision. On this system there is none.
type Run struct{}

// Start says that this system has no way to intercept calls.
func Start(context.Context, Options) (*Run, error) {
	return nil, &UnavailableError{"system", errors.New("only Linux on amd64 and arm64")}
}

// PID is the program's process id.
func (*Run) PID() int { return 0 }

// Count is how many calls were counted.
func (*Run) Count() int { return 0 }

// Arm chooses another call.
func (*Run) Arm(Shot) {}

// Hit is closed when the chosen call is reached.
func (*Run) Hit() <-chan struct{} { return nil }

// Last is the hit that Hit announced.
func (*Run) Last() *Hit { return nil }

// Signal sends a signal to the program.
func (*Run) Signal(syscall.Signal) error { return ErrUnavailable }

// Kill kills the whole tree.
func (*Run) Kill() {}

// Done is closed when nobody of the run is left.
func (*Run) Done() <-chan struct{} { return nil }

// Wait returns when nobody of the run is left.
func (*Run) Wait() (Result, error) { return Result{}, ErrUnavailable }
