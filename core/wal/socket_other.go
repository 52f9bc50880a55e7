//go:build !linux

package wal

import "net"

func tuneTCP(tcp *net.TCPConn) { _ = tcp.SetReadBuffer(4 << 20) }
