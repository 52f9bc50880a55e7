package cases_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// line is the way of a road's connections to the server. It can go silent, as a network
// that drops packets, and notes the positions that the server is told.
type wire struct {
	listener net.Listener
	target   string // the server's socket

	mu      sync.Mutex
	strands map[*strand]bool
	told    []core.LSN
	opened  int
	by      []int // the connection of each
}

// strand is one connection on it.
type strand struct {
	client, server net.Conn
	mu             sync.Mutex
	silent         chan struct{} // not nil while nothing passes
	sent           []byte        // by the client, not yet looked at
	greeted        bool
	number         int
	stream         bool // a replication connection
}

// wire makes one to the scene's server.
func (s *scene) wire() *wire { return s.wireOn("127.0.0.1:0") }

func (s *scene) wireOn(address string) *wire {
	s.Helper()
	u, err := url.Parse(s.db.DSN)
	require.NoError(s, err)
	listener, err := net.Listen("tcp", address)
	require.NoError(s, err)
	l := &wire{listener: listener, target: filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port")), strands: map[*strand]bool{}}
	var group sync.WaitGroup
	group.Go(func() { l.accept(&group) })
	s.Cleanup(func() {
		_ = listener.Close()
		l.each((*strand).end)
		group.Wait()
	})
	return l
}

// through leads all connections of a road over the line.
func (l *wire) through(o *pipeline.Options) {
	o.Source.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.listener.Addr().String())
	}
}

func (l *wire) accept(group *sync.WaitGroup) {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", l.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &strand{client: client, server: server}
		l.mu.Lock()
		l.opened++
		c.number = l.opened
		l.strands[c] = true
		l.mu.Unlock()
		group.Go(func() { l.carry(c, client, server, true) })
		group.Go(func() { l.carry(c, server, client, false) })
	}
}

func (l *wire) carry(c *strand, from, to net.Conn, up bool) {
	defer func() {
		c.wait()
		_ = from.Close()
		_ = to.Close()
		l.mu.Lock()
		delete(l.strands, c)
		l.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		c.wait()
		if up {
			l.note(c, buf[:n])
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// note finds the status updates in what the client sends.
func (l *wire) note(c *strand, b []byte) {
	const headerSize, statusSize = 5, 5 + 1 + 3*8 + 8 + 1
	c.sent = append(c.sent, b...)
	for len(c.sent) >= headerSize {
		at := 1
		if !c.greeted {
			at = 0 // the first message has no letter
		}
		size := at + int(binary.BigEndian.Uint32(c.sent[at:]))
		if len(c.sent) < size {
			return
		}
		if !c.greeted {
			c.mu.Lock()
			c.stream = bytes.Contains(c.sent[:size], []byte("replication\x00"))
			c.mu.Unlock()
		}
		if c.greeted && c.sent[0] == 'd' && size == statusSize && c.sent[headerSize] == 'r' {
			l.mu.Lock()
			l.by = append(l.by, c.number)
			l.told = append(l.told, core.LSN(binary.BigEndian.Uint64(c.sent[headerSize+1+8:])))
			l.mu.Unlock()
		}
		c.greeted = true
		c.sent = c.sent[size:]
	}
}

// wait returns when the strand is not silent.
func (c *strand) wait() {
	c.mu.Lock()
	silent := c.silent
	c.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

func (c *strand) hush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent == nil {
		c.silent = make(chan struct{})
	}
}

func (c *strand) speak() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent != nil {
		close(c.silent)
		c.silent = nil
	}
}

func (c *strand) end() {
	_ = c.client.Close()
	_ = c.server.Close()
	c.speak()
}

func (l *wire) each(f func(*strand)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.strands {
		f(c)
	}
}

// silence stops what there is; neither side is told. Later connections are not concerned.
func (l *wire) silence() { l.each((*strand).hush) }

// silenceStreams does so with replication connections alone.
func (l *wire) silenceStreams() {
	l.each(func(c *strand) {
		c.mu.Lock()
		stream := c.stream
		c.mu.Unlock()
		if stream {
			c.hush()
		}
	})
}

// thaw lets pass what was held.
func (l *wire) thaw() { l.each((*strand).speak) }

// positions are the flush positions that the server was told, in order.
func (l *wire) positions() []core.LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]core.LSN(nil), l.told...)
}

// rises checks that they never went back on a connection and were never zero. A new
// connection begins with what the slot has, which may be less than was said last to a
// server that had no time to listen.
func (l *wire) rises(r *road) {
	r.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NotEmpty(r, l.told)
	last := map[int]core.LSN{}
	for i, at := range l.told {
		require.NotZero(r, at)
		require.GreaterOrEqual(r, at, last[l.by[i]], "status %d of %d", i, len(l.told))
		last[l.by[i]] = at
	}
	require.Greater(r, len(last), 3, "connections")
}
