package sink

import (
	"errors"
	"net"
	"os"
	"strings"
	"time"
)

// Faults of an address.
var (
	ErrNoAddress = errors.New("listen address is empty; want unix:/path or host:port")
	ErrPlainTCP  = errors.New("listen address is not loopback: use WithTLS, or WithPlainTCP")
	ErrInUse     = errors.New("listen address: another process answers on this socket")
)

// listen opens "unix:/path", "unix:///path" or "host:port". A socket is open to its own
// user alone. One that a killed process left behind is replaced.
func listen(address string, o options) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if isUnix {
		path = strings.TrimPrefix(path, "//")
		return listenUnix(path)
	}
	if address == "" {
		return nil, ErrNoAddress
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.New("listen address is neither unix:/path nor host:port")
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if !loopback && o.tls == nil && !o.insecure {
		return nil, ErrPlainTCP
	}
	return net.Listen("tcp", address)
}

func listenUnix(path string) (net.Listener, error) {
	if path == "" {
		return nil, ErrNoAddress
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = conn.Close()
			return nil, ErrInUse
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}
