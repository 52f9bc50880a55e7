package sim

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// valve holds up who wants to pass while it is shut.
type valve struct {
	mu   sync.Mutex
	shut chan struct{} // nil while open
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut == nil {
		v.shut = make(chan struct{})
	}
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut != nil {
		close(v.shut)
		v.shut = nil
	}
}

// pass waits until the valve is open.
func (v *valve) pass() {
	for {
		v.mu.Lock()
		shut := v.shut
		v.mu.Unlock()
		if shut == nil {
			return
		}
		<-shut
	}
}

// link is one connection's way through the network.
type link struct {
	w     *world
	gen   *generation
	ends  [4]net.Conn // the client's, the network's two, the server's
	net   valve
	left  [2]atomic.Int64 // bytes that still pass, up and down
	gone  atomic.Bool
	stuck atomic.Bool // was ever held up

	streams atomic.Bool  // START_REPLICATION was sent
	wrote   atomic.Int64 // when the client last began to write, in nanoseconds
}

const (
	toServer = 0
	toClient = 1
)

// room is what each leg of a link holds: little, so that a client that does not read is
// felt soon.
const room = 16 << 10

// endless is more than any simulation sends.
const endless = int64(1) << 50

func newLink(w *world, gen *generation) *link {
	l := &link{w: w, gen: gen}
	l.ends[0], l.ends[1] = waltest.PipeOf(room)
	l.ends[2], l.ends[3] = waltest.PipeOf(room)
	l.left[0].Store(endless)
	l.left[1].Store(endless)
	w.spawn(func() { l.relay(toServer, l.ends[1], l.ends[2]) })
	w.spawn(func() { l.relay(toClient, l.ends[2], l.ends[1]) })
	return l
}

func (l *link) relay(direction int, from, to net.Conn) {
	defer l.cut()
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		l.net.pass()
		if left := l.left[direction].Add(-int64(n)); left < 0 {
			n = max(n+int(left), 0)
			err = errors.New("cut")
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			if n > 0 && failed == nil {
				time.Sleep(time.Millisecond) // what was let through arrives
			}
			return
		}
	}
}

// cut ends the connection in both directions. What was on its way to either side is
// still read there.
func (l *link) cut() {
	if l.gone.Swap(true) {
		return
	}
	_ = l.ends[1].Close()
	_ = l.ends[2].Close()
}

// cutAfter lets so many more bytes pass in one direction.
func (l *link) cutAfter(direction int, bytes int64) { l.left[direction].Store(bytes) }

// hold stops the network for a while; afterwards it goes on, or is reset as a kernel
// does that had no answer.
func (l *link) hold(d time.Duration, reset bool) {
	l.stuck.Store(true)
	l.net.close()
	time.AfterFunc(d, func() {
		if reset {
			l.cut()
		}
		l.net.open()
	})
}

// client is the sidecar's end: what a frozen process does not do, does not happen here.
func (l *link) client() net.Conn { return &clientConn{Conn: l.ends[0], l: l} }

type clientConn struct {
	net.Conn
	l *link
}

func (c *clientConn) Read(p []byte) (int, error) {
	c.l.gen.gate.pass()
	n, err := c.Conn.Read(p)
	c.l.gen.gate.pass()
	if err != nil && c.l.gone.Load() && c.l.stuck.Load() {
		err = syscall.ETIMEDOUT
	}
	return n, err
}

func (c *clientConn) Write(p []byte) (int, error) {
	c.l.gen.gate.pass()
	if c.l.streams.Load() {
		c.l.w.mu.Lock()
		c.l.gen.judgeAlive("a status update")
		c.l.w.mu.Unlock()
	}
	c.l.wrote.Store(time.Now().UnixNano())
	if bytes.Contains(p, []byte("START_REPLICATION")) {
		c.l.streams.Store(true)
	}
	return c.Conn.Write(p)
}

// dial is how a sidecar reaches the server.
func (g *generation) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	g.gate.pass()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := newLink(g.w, g)
	if !g.w.server.accept(l.ends[3], g) {
		l.cut()
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	g.addLink(l)
	return l.client(), nil
}
