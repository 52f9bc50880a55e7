package suite

import (
	"io"
	"net"
	"strings"
	"time"
)

// Diagnose says what is at the address of a sink that does not answer, in a clause: "" if
// it speaks HTTP/2, as gRPC does.
func Diagnose(address string) string {
	network := "tcp"
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		network, address = "unix", strings.TrimPrefix(path, "//")
	}
	conn, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return "nothing listens there"
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	// What an HTTP/2 client begins with, and an empty frame of settings. A server begins
	// with a frame of settings too: its type is the fourth byte.
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	head := make([]byte, 9)
	if _, err := io.ReadFull(conn, head); err != nil {
		return "something listens there, takes connections and says nothing"
	}
	if head[3] != 4 {
		return "what listens there does not speak HTTP/2, so it is no gRPC server without TLS"
	}
	return ""
}
