package wal

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nap blocks the thread: the runtime's own timers are a millisecond coarse in a process
// that is otherwise idle. Where there is another processor for the rest of the program,
// the runtime is not told of it: handing this one over and back, and waking threads that
// look for work meanwhile, costs more than the pause is worth. Whatever the runtime
// wants from this thread it asks for with a signal, which ends the pause.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	if runtime.GOMAXPROCS(0) == 1 {
		_ = unix.Nanosleep(&t, nil)
		return
	}
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
