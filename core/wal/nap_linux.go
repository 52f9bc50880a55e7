package wal

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap blocks the thread: the runtime's own timers are a millisecond coarse in a process
// that is otherwise idle.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}
