package crash

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// ErrUnavailable: this machine does not let us watch a process. The error that wraps it
// says which step was refused.
var ErrUnavailable = errors.New("calls of a process cannot be intercepted here")

// UnavailableError is the step that was refused, and the system's reason.
type UnavailableError struct {
	Step string
	Err  error
}

// Error names both.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s: %s: %s", ErrUnavailable, e.Step, e.Err)
}

// Unwrap gives ErrUnavailable and the system's reason.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// Class is a set of kinds of calls.
type Class uint8

// The kinds.
const (
	// Create: open that may create or cut a file, creat, mkdir, mknod, link, symlink.
	Create Class = 1 << iota
	// Write: the write family, and copies inside the kernel, into a file or a disk.
	Write
	// Sync: fsync, fdatasync, sync_file_range, msync, sync, syncfs.
	Sync
	// Resize: truncate, ftruncate, fallocate.
	Resize
	// Rename: rename, unlink, rmdir.
	Rename
	// Network: connect, accept and the send family, and the write family on sockets.
	Network
)

// Storage is all that changes files.
const Storage = Create | Write | Sync | Resize | Rename

// Action is what happens at the chosen call.
type Action uint8

// The actions.
const (
	// KillTree kills every process of the run before the call is made.
	KillTree Action = iota
	// KillProcess kills the calling process only. The run goes on without further hits.
	KillProcess
	// DiskFull makes the call fail with ENOSPC, once. Only calls that can fail so are
	// counted: no call of Network, no unlink.
	DiskFull
	// DiskStaysFull is DiskFull for the chosen call and for every later one.
	DiskStaysFull
)

// Shot chooses a call and what happens there.
type Shot struct {
	// Classes that count; all of Options.Classes when 0.
	Classes Class
	// Select says whose calls count; everybody's when nil. It is asked at each call,
	// while the calling process waits, so that it may decide by what the process is now.
	Select func(Process) bool
	// At is the ordinal of the call, from 1. 0 counts only.
	At     int
	Action Action
}

// Options says what to run. Args is required.
type Options struct {
	// Args is the command and its arguments. A name without a slash is looked up in
	// this process's PATH.
	Args []string
	// Env is the environment; this process's own when nil.
	Env []string
	// Dir is the working directory; this process's own when empty.
	Dir string
	// Credential is the account to run as; this process's own when nil.
	Credential *syscall.Credential
	// Stdin, Stdout and Stderr are as in os/exec.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Classes are reported at all; Storage when 0. A Shot can narrow them, not widen.
	Classes Class
	// Select, At and Action are the first Shot.
	Select func(Process) bool
	At     int
	Action Action
	// Observe is told every counted call before it goes on, in order. It must not call
	// Run's methods.
	Observe func(Call)
}

// Call is one counted call.
type Call struct {
	Ordinal int
	Name    string // pwrite64
	Process Process
}

// Hit is the chosen call.
type Hit struct {
	Ordinal int
	Syscall string
	// PID is the process that made the call, TID its thread.
	PID, TID int
	// Title is its command line as it was at the call.
	Title  string
	Action Action
}

// Result is the end of a run.
type Result struct {
	// Count is how many calls were counted since the start or the last Arm. A call at
	// which a process was killed counts.
	Count int
	// Hit is nil when the chosen call was not reached.
	Hit *Hit
	// Refused is how many calls were answered ENOSPC.
	Refused int
	// Status is how the program itself ended.
	Status syscall.WaitStatus
}

// ByPID selects the calls of one process.
func ByPID(pid int) func(Process) bool { return func(p Process) bool { return p.PID() == pid } }
