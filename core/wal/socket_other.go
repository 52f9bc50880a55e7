//go:build !linux

package wal

import "net"

// receiveBuffer holds what a busy walsender sends within a nap, many times over.
const receiveBuffer = 4 << 20

func tuneTCP(tcp *net.TCPConn) { _ = tcp.SetReadBuffer(receiveBuffer) }
