//go:build amd64 || arm64

package crash

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif: a call that waits for our word.
type notification struct {
	id    uint64
	tid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// verdict is struct seccomp_notif_resp.
type verdict struct {
	id    uint64
	value int64
	errno int32 // negative
	flags uint32
}

// listener is the file by which the kernel reports the calls of everybody under the
// filter.
type listener struct{ fd int }

// receive takes a report that poll has announced. ENOENT and EINTR: it is gone again.
func (l listener) receive(n *notification) error {
	*n = notification{} // the kernel wants it empty
	return l.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
}

// hurry lets caller and answer share a processor, which halves the time of a call. A
// kernel before 6.6 does not know it, and nothing depends on it.
func (l listener) hurry() {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// waits reports whether the caller still waits, so that its number is no stranger's.
func (l listener) waits(id uint64) bool {
	return l.control(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

// proceed lets the call be made.
func (l listener) proceed(id uint64) error {
	v := verdict{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	return l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&v))
}

// refuse answers the call with an error; it is not made.
func (l listener) refuse(id uint64, e unix.Errno) error {
	v := verdict{id: id, errno: -int32(e)}
	return l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&v))
}

func (l listener) control(request uint, argument unsafe.Pointer) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), uintptr(request), uintptr(argument))
	if e != 0 {
		return e
	}
	return nil
}

// sizesFit reports whether the kernel's structures are the ones above.
func sizesFit() error {
	var sizes struct{ notification, verdict, data uint16 }
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	if e != 0 {
		return e
	}
	if uintptr(sizes.notification) != unsafe.Sizeof(notification{}) || uintptr(sizes.verdict) != unsafe.Sizeof(verdict{}) {
		return unix.EMSGSIZE
	}
	return nil
}
