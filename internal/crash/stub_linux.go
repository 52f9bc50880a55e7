//go:build amd64 || arm64

package crash

import (
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stubSocket is the descriptor by which the second stage speaks to us.
const stubSocket = 3

// become is the second stage: it turns into the program, under the filter. From the
// filter on this thread makes two calls, and neither is counted: the message with the
// listener, let through by its cookie, and the exec.
func become(p plan) {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	unix.CloseOnExec(stubSocket)
	environ := stageEnviron(os.Environ(), "", p)
	path, argv, envv, err := execArguments(p.Path, os.Args, environ)
	if err == nil {
		err = prepare(p)
	}
	if err != nil {
		_ = tell(stubSocket, report{Step: stepPrepare, Errno: errnoOf(err), PID: os.Getpid()}, 0, nil)
		return
	}
	fd, err := listen(filter(p.Classes, p.Cookie))
	if err != nil {
		_ = tell(stubSocket, report{Step: stepListener, Errno: errnoOf(err), PID: os.Getpid()}, 0, nil)
		return
	}
	if tell(stubSocket, report{Step: stepListener, PID: os.Getpid()}, p.Cookie, unix.UnixRights(fd)) != nil {
		return
	}
	// The listener is close-on-exec: the program does not hold its own supervisor.
	_, _, failed := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])))
	_ = tell(stubSocket, report{Step: stepExec, Errno: int(failed), PID: os.Getpid()}, p.Cookie, nil)
}

// prepare gives up what the program shall not have, in the order that permits it.
func prepare(p plan) error {
	if c := p.Credential; c != nil {
		if !c.NoSetGroups {
			groups := make([]int, len(c.Groups))
			for i, g := range c.Groups {
				groups[i] = int(g)
			}
			if err := syscall.Setgroups(groups); err != nil {
				return err
			}
		}
		if err := syscall.Setgid(int(c.Gid)); err != nil {
			return err
		}
		if err := syscall.Setuid(int(c.Uid)); err != nil {
			return err
		}
	}
	// After the change of account, which clears it: who loses its keeper dies.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != p.Keeper {
		return unix.ESRCH
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// listen installs the filter on this thread, which is the one that execs, and returns
// the listener. Where the kernel can (5.19), a reported call waits through signals that
// do not kill, so that it is reported once.
func listen(program []unix.SockFilter) (int, error) {
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	var fd uintptr
	var e unix.Errno
	for _, flags := range []uintptr{
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
	} {
		fd, _, e = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
		if e != unix.EINVAL {
			break
		}
	}
	runtime.KeepAlive(program)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// execArguments makes ready what exec needs, while memory may still be asked for.
func execArguments(path string, args, environ []string) (*byte, []*byte, []*byte, error) {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, nil, nil, err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return nil, nil, nil, err
	}
	envv, err := syscall.SlicePtrFromStrings(environ)
	return p, argv, envv, err
}

// sendmsg sends one datagram. The cookie is put where sendmsg has no argument.
func sendmsg(fd int, text, rights []byte, cookie uint64) error {
	iov := unix.Iovec{Base: &text[0]}
	iov.SetLen(len(text))
	msg := unix.Msghdr{Iov: &iov}
	msg.SetIovlen(1)
	if len(rights) > 0 {
		msg.Control = &rights[0]
		msg.SetControllen(len(rights))
	}
	_, _, e := unix.RawSyscall6(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 0, 0, 0, uintptr(cookie))
	if e != 0 {
		return e
	}
	return nil
}
