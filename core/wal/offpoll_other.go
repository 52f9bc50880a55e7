//go:build !linux

package wal

import "net"

// offPoller leaves the socket in the runtime's network poller.
func offPoller(conn net.Conn) net.Conn { return conn }
