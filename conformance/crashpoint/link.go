package crashpoint

import (
	"io"
	"net"
	"sync"
	"time"
)

// link is one connection of the sink and its counterpart to the database.
type link struct {
	sink, store net.Conn
	once        sync.Once
	gone        chan struct{} // closed when nothing of it is left
}

// run passes bytes both ways until both ends are gone.
func (l *link) run(p *Proxy) {
	var answers sync.WaitGroup
	answers.Add(1)
	go func() {
		defer answers.Done()
		l.answers()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.sink.Read(buffer)
		if n > 0 {
			last := p.passes(n)
			if last {
				// Nothing of the answer may slip through: the sink's end goes first.
				reset(l.sink)
			}
			if _, failed := l.store.Write(buffer[:n]); failed != nil {
				break
			}
			if last {
				p.cut()
				break
			}
		}
		if err != nil {
			break
		}
	}
	l.lose()
	answers.Wait()
	_ = l.store.Close()
}

// answers passes on what the database says, and reads it to its end even if the sink is
// gone: then the database has done all that it was told.
func (l *link) answers() {
	if _, err := io.Copy(l.sink, l.store); err != nil {
		_, _ = io.Copy(io.Discard, l.store)
	}
	if c, ok := l.sink.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// lose breaks the connection to the sink at once, and tells the database that nothing more
// will come. What the database then does has ten seconds.
func (l *link) lose() {
	l.once.Do(func() {
		reset(l.sink)
		if c, ok := l.store.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
		_ = l.store.SetReadDeadline(time.Now().Add(10 * time.Second))
	})
}

// reset closes with a reset where there is one, so that nobody waits for more.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
