package wal

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// unackedMax is how long written bytes may stay unacknowledged by the peer's kernel.
const unackedMax = 30 * time.Second

// tuneTCP is best effort: without it the stream is as right, only slower to notice a
// dead peer. The receive buffer is left to the kernel, which lets it grow (to 6 MiB by
// default); naming a size would stop that, and is cut to rmem_max (208 KiB by default).
func tuneTCP(tcp *net.TCPConn) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedMax.Milliseconds()))
	})
}
