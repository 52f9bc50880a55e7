package crashpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// Proxy stands between a sink and its database: it passes bytes on, whatever they are, TLS
// too, and loses all connections after the n-th piece that the sink sends. The database
// gets that piece; what it answers never arrives. Later connections are whole.
type Proxy struct {
	listener net.Listener
	upstream string
	target   conformance.Target
	wg       sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	count  int
	at     int
	struck string
	lost   []*link
	down   bool
	closed bool
}

// Listen opens a proxy on listen ("127.0.0.1:0") to upstream, each "host:port" or
// "unix:/path". Close ends it.
func Listen(listen, upstream string) (*Proxy, error) {
	l, err := net.Listen(split(listen))
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, upstream: upstream, links: map[*link]bool{}}
	p.wg.Add(1)
	go p.serve()
	return p, nil
}

// Watch names the sink that sits behind the proxy; Visit needs it.
func (p *Proxy) Watch(target conformance.Target) { p.target = target }

// Addr is where the sink must connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close loses every connection and returns when nothing runs any more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.cut()
	p.wg.Wait()
	return err
}

// Shut loses every connection and takes no new one, as if the database were away. What it
// was told before, it does.
func (p *Proxy) Shut() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.cut()
}

// Open takes connections again.
func (p *Proxy) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// Engine is "proxy".
func (*Proxy) Engine() string { return "proxy" }

// Visit is that of conformance.Crasher. The sink itself is not killed: it has to come back
// from a lost connection alone.
func (p *Proxy) Visit(ctx context.Context, plan conformance.CrashPlan) (conformance.CrashMap, error) {
	if p.target == nil {
		return conformance.CrashMap{}, errors.New("crashpoint: the proxy was not told its sink")
	}
	return visit(ctx, p.Engine(), p.target, plan, p)
}

func (p *Proxy) arm(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count, p.at, p.struck, p.lost = 0, n, "", nil
	return nil
}

// settled returns after a cut when the database has ended the sessions that were lost, so
// that what it was about to commit is committed.
func (p *Proxy) settled(ctx context.Context) (int, string, error) {
	p.mu.Lock()
	count, struck, lost := p.count, p.struck, p.lost
	p.at, p.lost = 0, nil
	p.mu.Unlock()
	for _, l := range lost {
		select {
		case <-l.gone:
		case <-ctx.Done():
			return 0, "", ctx.Err()
		}
	}
	return count, struck, nil
}

// passes counts a piece from the sink. It reports whether this is the one to cut after;
// the connections to cut are then noted.
func (p *Proxy) passes(n int) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	if p.at == 0 || p.count != p.at {
		return false
	}
	p.struck = fmt.Sprintf("after %d bytes", n)
	for l := range p.links {
		p.lost = append(p.lost, l)
	}
	return true
}

func (p *Proxy) serve() {
	defer p.wg.Done()
	for {
		sink, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			p.join(sink)
		}()
	}
}

func (p *Proxy) join(sink net.Conn) {
	defer sink.Close()
	p.mu.Lock()
	refused := p.down || p.closed
	p.mu.Unlock()
	if refused {
		reset(sink)
		return
	}
	var d net.Dialer
	d.Timeout = 10 * time.Second
	network, address := split(p.upstream)
	store, err := d.Dial(network, address)
	if err != nil {
		return
	}
	l := &link{sink: sink, store: store, gone: make(chan struct{})}
	defer close(l.gone)
	p.mu.Lock()
	p.links[l] = true
	late := p.down || p.closed
	p.mu.Unlock()
	if late {
		l.lose()
	}
	l.run(p)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// cut loses all connections.
func (p *Proxy) cut() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.lose()
	}
}

func split(address string) (network, rest string) {
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		return "unix", path
	}
	return "tcp", address
}
