package windows

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// proxy stands on a unix socket between two processes. It cuts after a number of bytes,
// or holds one direction up.
type proxy struct {
	listener net.Listener
	// only chooses the connections that faults hit, by their first bytes; nil is all.
	only func(first []byte) bool

	mu     sync.Mutex
	target string
	pairs  map[*pair]bool
	budget int // bytes from the server until the cut; below 0 no cut
	cuts   int
	held   chan struct{} // not nil while bytes to the server are held up
	record bool
	tape   []byte // what chosen connections got from the server, while record is set
}

type pair struct {
	client, server net.Conn
	marked         bool
}

func (s *scene) proxy(socket, target string, only func([]byte) bool) *proxy {
	s.Helper()
	listener, err := net.Listen("unix", socket)
	require.NoError(s.T, err)
	p := &proxy{listener: listener, target: target, only: only, pairs: map[*pair]bool{}, budget: -1}
	go p.accept()
	s.Cleanup(func() {
		_ = listener.Close()
		p.release()
		p.cutAll()
	})
	return p
}

// postgres is a proxy before a server, and the DSN that leads through it.
func (s *scene) postgres(dsn string, only func([]byte) bool) (*proxy, string) {
	s.Helper()
	u, err := url.Parse(dsn)
	require.NoError(s.T, err)
	q := u.Query()
	const name = ".s.PGSQL.5432"
	s.started++
	dir := filepath.Join(s.dir, "p"+string(rune('a'+s.started%26)))
	require.NoError(s.T, os.MkdirAll(dir, 0o700))
	p := s.proxy(filepath.Join(dir, name), filepath.Join(q.Get("host"), name), only)
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	return p, u.String()
}

// sinkProxy stands before the sink, whose own socket it returns.
func (s *scene) sinkProxy() (p *proxy, socket string) {
	s.Helper()
	socket = filepath.Join(s.dir, "behind")
	return s.proxy(strings.TrimPrefix(s.address, "unix:"), socket, nil), socket
}

// replication chooses walsenders, by the startup packet.
func replication(first []byte) bool { return bytes.Contains(first, []byte("replication\x00")) }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("unix", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pair{client: client, server: server, marked: p.only == nil}
		p.mu.Lock()
		p.pairs[c] = true
		p.mu.Unlock()
		go p.up(c)
		go p.down(c)
	}
}

// up carries bytes to the server.
func (p *proxy) up(c *pair) {
	defer p.close(c)
	buf := make([]byte, 32<<10)
	for first := true; ; first = false {
		n, err := c.client.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		if first && p.only != nil {
			c.marked = p.only(buf[:n])
		}
		held := p.held
		if !c.marked {
			held = nil
		}
		p.mu.Unlock()
		if held != nil {
			<-held
		}
		if _, err := c.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// down carries bytes from the server, up to the cut.
func (p *proxy) down(c *pair) {
	defer p.close(c)
	buf := make([]byte, 32<<10)
	for {
		n, err := c.server.Read(buf)
		if err != nil {
			return
		}
		n, cut := p.allow(c, buf[:n])
		if _, err := c.client.Write(buf[:n]); err != nil {
			return
		}
		if cut {
			p.mu.Lock()
			p.cuts++
			p.mu.Unlock()
			return
		}
	}
}

func (p *proxy) allow(c *pair, b []byte) (n int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = len(b)
	if c.marked && p.record {
		p.tape = append(p.tape, b...)
	}
	switch {
	case !c.marked || p.budget < 0:
		return n, false
	case n < p.budget:
		p.budget -= n
		return n, false
	}
	n, p.budget = p.budget, -1
	return n, true
}

func (p *proxy) close(c *pair) {
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
	_ = c.client.Close()
	_ = c.server.Close()
}

// cutAfter cuts a chosen connection after n more bytes from the server.
func (p *proxy) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = n
}

func (p *proxy) cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// told reports whether a keepalive with this WAL end is on the tape.
func (p *proxy) told(walEnd core.LSN) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	const length = 4 + 1 + 8 + 8 + 1
	return bytes.Contains(p.tape, binary.BigEndian.AppendUint64([]byte{'d', 0, 0, 0, length, 'k'}, uint64(walEnd)))
}

// hold keeps back what the client sends from now on.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// lead sends later connections to another server.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// cutAll ends all connections and says how many.
func (p *proxy) cutAll() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		n++
		_ = c.client.Close()
		_ = c.server.Close()
	}
	return n
}
