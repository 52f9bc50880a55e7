package waltest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBytes is what one direction holds before a write blocks, as a socket's buffer does.
const pipeBytes = 1 << 20

// Pipe makes two ends of a buffered connection in memory, with deadlines. It blocks on
// condition variables alone, so that it may live inside a synctest bubble.
func Pipe() (net.Conn, net.Conn) { return PipeOf(pipeBytes) }

// PipeOf is Pipe with so many bytes of room in each direction: the fewer, the sooner a
// reader that stops is felt by the writer.
func PipeOf(size int) (net.Conn, net.Conn) {
	a, b := newHalf(size), newHalf(size)
	return &end{in: a, out: b}, &end{in: b, out: a}
}

type end struct{ in, out *half }

func (e *end) Read(p []byte) (int, error)         { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error)        { return e.out.write(p) }
func (e *end) SetReadDeadline(t time.Time) error  { e.in.reader.set(e.in, t); return nil }
func (e *end) SetWriteDeadline(t time.Time) error { e.out.writer.set(e.out, t); return nil }
func (e *end) LocalAddr() net.Addr                { return address{} }
func (e *end) RemoteAddr() net.Addr               { return address{} }

func (e *end) SetDeadline(t time.Time) error {
	_ = e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}

// Close ends both directions: the other side reads what was written, then EOF.
func (e *end) Close() error {
	e.out.close(false)
	e.in.close(true)
	return nil
}

type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "memory" }

// half is one direction.
type half struct {
	mu             sync.Mutex
	changed        *sync.Cond
	size           int // room for bytes that were not read
	data           []byte
	closed         bool // no more writes; reads drain
	dropped        bool // the reading end is gone
	writing        bool
	reader, writer deadline
}

func newHalf(size int) *half {
	h := &half{size: size}
	h.changed = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.dropped:
			return 0, net.ErrClosed
		case h.reader.passed():
			return 0, os.ErrDeadlineExceeded
		case len(h.data) > 0:
			n := copy(p, h.data)
			h.data = h.data[n:]
			h.changed.Broadcast()
			return n, nil
		case h.closed:
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.writing { // writes do not mix, as on a socket
		h.changed.Wait()
	}
	h.writing = true
	defer func() {
		h.writing = false
		h.changed.Broadcast()
	}()
	written := 0
	for written < len(p) {
		switch {
		case h.closed:
			return written, net.ErrClosed
		case h.dropped:
			return written, io.ErrClosedPipe
		case h.writer.passed():
			return written, os.ErrDeadlineExceeded
		case len(h.data) < h.size:
			n := min(len(p)-written, h.size-len(h.data))
			h.data = append(h.data, p[written:written+n]...)
			written += n
			h.changed.Broadcast()
			continue
		}
		h.changed.Wait()
	}
	return written, nil
}

func (h *half) close(dropped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.dropped = h.dropped || dropped
	h.reader.cancel()
	h.writer.cancel()
	h.changed.Broadcast()
}

// deadline wakes the half it belongs to when its time has come.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) cancel() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) set(h *half, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.cancel()
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 && !h.closed {
		d.timer = time.AfterFunc(wait, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.changed.Broadcast()
		})
	}
	h.changed.Broadcast()
}
