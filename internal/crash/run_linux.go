//go:build amd64 || arm64

package crash

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run is a program under supervision. Its methods may be called from any goroutine.
type Run struct {
	cmd      *exec.Cmd
	pid      int
	keeper   *net.UnixConn
	watch    *watcher
	done     chan struct{}
	result   Result // valid after done
	err      error  // valid after done
	detach   func() bool
	killOnce sync.Once
}

// Start starts the program. It returns once the program's own code is about to run. The
// end of ctx kills the tree at any time.
//
// Where calls cannot be intercepted the error is ErrUnavailable, and nothing was run.
func Start(ctx context.Context, o Options) (*Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := sizesFit(); err != nil {
		return nil, &UnavailableError{"notification", err}
	}
	p, err := planFor(&o)
	if err != nil {
		return nil, err
	}
	r, stub, err := launch(o, p)
	if err != nil {
		return nil, err
	}
	defer stub.Close()
	r.detach = context.AfterFunc(ctx, func() { _ = stub.SetReadDeadline(past); r.Kill() })
	if err := r.begin(stub, o, p); err != nil {
		r.Kill()
		_ = r.keeper.Close() // a keeper that never began ends by this
		_ = r.cmd.Wait()
		r.detach()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	go r.supervise()
	return r, nil
}

func planFor(o *Options) (plan, error) {
	if len(o.Args) == 0 || o.At < 0 {
		return plan{}, errors.New("crash: no command, or an ordinal below zero")
	}
	if o.Classes == 0 {
		o.Classes = Storage
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	path, err := exec.LookPath(o.Args[0])
	if err != nil {
		return plan{}, err
	}
	var cookie [8]byte
	_, _ = rand.Read(cookie[:]) // documented never to fail
	return plan{Path: path, Credential: o.Credential, Classes: o.Classes, Cookie: binary.NativeEndian.Uint64(cookie[:])}, nil
}

// launch starts the keeper and returns our ends of the two sockets.
func launch(o Options, p plan) (*Run, *net.UnixConn, error) {
	keeper, keepersEnd, err := pair()
	if err != nil {
		return nil, nil, err
	}
	defer keepersEnd.Close()
	stub, stubsEnd, err := pair()
	if err != nil {
		return nil, nil, errors.Join(err, keeper.Close())
	}
	defer stubsEnd.Close()
	cmd := exec.Command("/proc/self/exe", o.Args[1:]...)
	cmd.Args[0] = o.Args[0]
	cmd.Env, cmd.Dir = stageEnviron(o.Env, "keeper", p), o.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	cmd.ExtraFiles = []*os.File{keepersEnd, stubsEnd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C reaches us, and we decide
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("crash: keeper: %w", err), keeper.Close(), stub.Close())
	}
	return &Run{cmd: cmd, keeper: keeper, done: make(chan struct{})}, stub, nil
}

// pair is a socket that keeps datagrams apart, knows the end, and carries files.
func pair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "crash"), os.NewFile(uintptr(fds[1]), "crash")
	defer mine.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// begin takes the listener, starts to answer, and waits until the second stage is the
// program: then its socket is closed by the exec.
func (r *Run) begin(stub *net.UnixConn, o Options, p plan) error {
	first, fd, err := receive(stub)
	switch {
	case err != nil:
		return r.neverBegan(err)
	case first.Errno != 0 && first.Step == stepListener:
		return &UnavailableError{first.Step, unix.Errno(first.Errno)}
	case first.Errno != 0 || fd < 0:
		return fmt.Errorf("crash: %s of %s: %w", first.Step, p.Path, unix.Errno(first.Errno))
	}
	r.pid = first.PID
	if r.watch, err = newWatcher(fd, o); err != nil {
		return err
	}
	r.watch.killTree = r.Kill
	go r.watch.run()
	second, _, err := receive(stub)
	if errors.Is(err, io.EOF) {
		return nil
	}
	r.Kill()
	r.watch.end()
	if err != nil {
		return err
	}
	return fmt.Errorf("crash: %s of %s: %w", second.Step, p.Path, unix.Errno(second.Errno))
}

// neverBegan asks the keeper why its child said nothing.
func (r *Run) neverBegan(err error) error {
	if last, _, _ := receive(r.keeper); last.Errno != 0 {
		return fmt.Errorf("crash: %s: %w", last.Step, unix.Errno(last.Errno))
	}
	return fmt.Errorf("crash: the program's process ended before it began: %w", err)
}

// supervise waits for the end of everybody and gathers the result.
func (r *Run) supervise() {
	var status syscall.WaitStatus
	ended := false
	for {
		last, _, err := receive(r.keeper)
		if err != nil {
			break // the end: nobody is left
		}
		if last.Step == stepEnded {
			status, ended = syscall.WaitStatus(last.Status), true
		}
	}
	r.watch.end()
	_ = r.keeper.Close()
	err := r.cmd.Wait()
	r.detach()
	r.result = r.watch.result()
	r.result.Status = status
	if !ended {
		r.err = errors.Join(errors.New("crash: the keeper was lost, and with it the program's end"), err)
	}
	close(r.done)
}
