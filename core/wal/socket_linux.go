package wal

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// unackedMax is how long written bytes may stay unacknowledged by the peer's kernel.
	unackedMax    = 30 * time.Second
	receiveBuffer = 4 << 20
)

// tuneTCP is best effort: without it the stream is as right, only slower to notice a
// dead peer.
func tuneTCP(tcp *net.TCPConn) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedMax.Milliseconds()))
	})
	_ = tcp.SetReadBuffer(receiveBuffer)
}
