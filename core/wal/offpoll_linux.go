package wal

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// offPoller takes a socket out of the runtime's network poller for the time of the
// stream. In the poller every message that arrives wakes an idle thread of ours, also
// while we pause on purpose, and the walsender pays for each of those wake-ups. Outside
// of it, messages queue in silence until they are read. A connection that is no plain
// socket is returned as it is.
func offPoller(conn net.Conn) net.Conn {
	file, ok := conn.(interface{ File() (*os.File, error) })
	if !ok {
		return conn
	}
	f, err := file.File() // a duplicate: the poller knows only the original
	if err != nil {
		return conn
	}
	quiet := &quietConn{Conn: conn, file: f, fd: int(f.Fd())}
	for _, d := range []*direction{&quiet.reads, &quiet.writes} {
		if d.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			quiet.free()
			return conn
		}
	}
	_ = conn.Close()
	return quiet
}

// quietConn is a net.Conn on plain system calls. Read and Write may run beside each
// other and beside deadlines and Close, as net.Conn promises.
type quietConn struct {
	net.Conn          // the original, closed; it still knows the addresses
	file     *os.File // owns fd
	fd       int

	use    sync.RWMutex // held for reading while fd and bell are in use
	closed atomic.Bool

	reads, writes direction
}

// direction is what one of Read and Write waits by.
type direction struct {
	bell     int          // rings for a changed deadline or a Close
	deadline atomic.Int64 // Unix nanoseconds; 0 none
}

// Read returns what is there, or waits for it until the deadline.
func (c *quietConn) Read(p []byte) (int, error) {
	c.use.RLock()
	defer c.use.RUnlock()
	for {
		if err := c.ready(&c.reads); err != nil {
			return 0, err
		}
		n, _, err := unix.Recvfrom(c.fd, p, unix.MSG_DONTWAIT)
		switch {
		case err == nil && n == 0 && len(p) > 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case err == unix.EAGAIN:
			err = c.wait(unix.POLLIN, &c.reads)
		}
		if err != nil && err != unix.EINTR {
			return 0, &net.OpError{Op: "read", Net: "socket", Err: os.NewSyscallError("recv", err)}
		}
	}
}

// Write sends all of p, or fails at the deadline.
func (c *quietConn) Write(p []byte) (sent int, err error) {
	c.use.RLock()
	defer c.use.RUnlock()
	for sent < len(p) {
		if err := c.ready(&c.writes); err != nil {
			return sent, err
		}
		n, err := unix.SendmsgN(c.fd, p[sent:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch err {
		case nil:
			sent += n
		case unix.EAGAIN:
			err = c.wait(unix.POLLOUT, &c.writes)
		}
		if err != nil && err != unix.EINTR {
			return sent, &net.OpError{Op: "write", Net: "socket", Err: os.NewSyscallError("send", err)}
		}
	}
	return sent, nil
}

// ready reports a closed connection or an expired deadline.
func (c *quietConn) ready(d *direction) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	if at := d.deadline.Load(); at != 0 && time.Now().UnixNano() >= at {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// wait blocks the thread until the socket is ready, the bell rings or the deadline is
// there; which of them it was, the caller finds out by trying again.
func (c *quietConn) wait(events int16, d *direction) error {
	var limit *unix.Timespec
	if at := d.deadline.Load(); at != 0 {
		t := unix.NsecToTimespec(max(at-time.Now().UnixNano(), 0))
		limit = &t
	}
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: events}, {Fd: int32(d.bell), Events: unix.POLLIN}}
	if _, err := unix.Ppoll(fds, limit, nil); err != nil {
		return err
	}
	if fds[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(d.bell, count[:])
	}
	return nil
}

func (d *direction) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(d.bell, one[:])
}

// SetDeadline sets both deadlines; a Read or Write that waits notices.
func (c *quietConn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// SetReadDeadline sets the deadline of Read.
func (c *quietConn) SetReadDeadline(t time.Time) error { return c.deadline(&c.reads, t) }

// SetWriteDeadline sets the deadline of Write.
func (c *quietConn) SetWriteDeadline(t time.Time) error { return c.deadline(&c.writes, t) }

func (c *quietConn) deadline(d *direction, t time.Time) error {
	at := int64(0)
	if !t.IsZero() {
		at = t.UnixNano()
	}
	c.use.RLock()
	defer c.use.RUnlock()
	if c.closed.Load() {
		return net.ErrClosed
	}
	d.deadline.Store(at)
	d.ring()
	return nil
}

// Close ends the connection and every call that waits on it.
func (c *quietConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	c.reads.ring()
	c.writes.ring()
	c.use.Lock() // the last call has left
	defer c.use.Unlock()
	return c.free()
}

func (c *quietConn) free() error {
	for _, d := range []*direction{&c.reads, &c.writes} {
		if d.bell > 0 {
			_ = unix.Close(d.bell)
		}
	}
	return c.file.Close()
}

// SyscallConn is refused: nobody may put the socket back into a poller.
func (c *quietConn) SyscallConn() (syscall.RawConn, error) { return nil, syscall.EINVAL }
