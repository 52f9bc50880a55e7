//go:build amd64 || arm64

package crash

import (
	"sync"

	"golang.org/x/sys/unix"
)

// watcher answers the kernel's reports, one after the other, from one goroutine.
type watcher struct {
	listener listener
	stop     int // event counter: ends run
	gone     chan struct{}
	classes  Class
	observe  func(Call)
	killTree func()

	mu      sync.Mutex
	shot    Shot
	count   int
	refused int
	hit     *Hit
	reached chan struct{}
}

func newWatcher(fd int, o Options) (*watcher, error) {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	w := &watcher{
		listener: listener{fd}, stop: stop, gone: make(chan struct{}),
		classes: o.Classes, observe: o.Observe,
	}
	w.arm(Shot{Classes: o.Classes, Select: o.Select, At: o.At, Action: o.Action})
	return w, nil
}

func (w *watcher) arm(s Shot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Classes == 0 {
		s.Classes = w.classes
	}
	w.shot, w.count, w.refused, w.hit, w.reached = s, 0, 0, nil, make(chan struct{})
}

func (w *watcher) hitChannel() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reached
}

func (w *watcher) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Result{Count: w.count, Refused: w.refused}
	if w.hit != nil {
		hit := *w.hit
		r.Hit = &hit
	}
	return r
}

// end stops run and returns when it has stopped.
func (w *watcher) end() {
	_, _ = unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-w.gone
}

// run answers until end is called or nobody is left under the filter.
func (w *watcher) run() {
	defer func() {
		_ = unix.Close(w.listener.fd)
		_ = unix.Close(w.stop)
		close(w.gone)
	}()
	fds := []unix.PollFd{{Fd: int32(w.stop), Events: unix.POLLIN}, {Fd: int32(w.listener.fd), Events: unix.POLLIN}}
	w.listener.hurry()
	var n notification
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[0].Revents != 0 {
			return
		}
		if fds[1].Revents&unix.POLLIN == 0 {
			if fds[1].Revents != 0 { // nobody is left
				fds[1].Fd = -1
			}
			continue
		}
		if w.listener.receive(&n) != nil {
			continue // gone again
		}
		if !w.answer(&n) {
			fds[1].Fd = -1 // the tree is being killed: nothing more is let through
		}
	}
}

// answer decides over one call. It returns false when the tree dies of it.
func (w *watcher) answer(n *notification) bool {
	who := Process{int(n.tid)}
	c := known[int(n.nr)]
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.counts(c, who, n) || !w.listener.waits(n.id) {
		_ = w.listener.proceed(n.id)
		return true
	}
	w.count++
	if w.observe != nil {
		w.observe(Call{Ordinal: w.count, Name: c.name, Process: who})
	}
	onward := w.shot.Action == DiskStaysFull && w.hit != nil
	if w.count == w.shot.At || onward {
		return w.strike(c, who, n)
	}
	if w.listener.proceed(n.id) != nil {
		w.count-- // a signal was faster: the call comes again, or its process is dead
	}
	return true
}

// counts reports whether the call is of the kind and of the process that were asked for.
func (w *watcher) counts(c *call, who Process, n *notification) bool {
	class := c.class
	switch {
	case c.fd >= 0:
		class = who.classOf(n.args[c.fd])
	case c.nr == unix.SYS_OPENAT2 && who.openFlags(n.args[2])&creating == 0:
		return false
	}
	if class&w.shot.Classes == 0 {
		return false
	}
	if full := w.shot.Action == DiskFull || w.shot.Action == DiskStaysFull; full && (!c.full || class == Network) {
		return false
	}
	return w.shot.Select == nil || w.shot.Select(who)
}

// strike does what the shot says at the chosen call.
func (w *watcher) strike(c *call, who Process, n *notification) bool {
	first := w.hit == nil
	if first {
		w.hit = &Hit{
			Ordinal: w.count, Syscall: c.name, PID: who.PID(), TID: who.tid,
			Title: who.Title(), Action: w.shot.Action,
		}
	}
	switch w.shot.Action {
	case KillTree:
		w.killTree()
		close(w.reached)
		return false
	case KillProcess:
		_ = unix.Kill(w.hit.PID, unix.SIGKILL)
	default:
		if w.listener.refuse(n.id, unix.ENOSPC) != nil { // as in answer
			w.count--
			if first {
				w.hit = nil
			}
			return true
		}
		w.refused++
	}
	if first {
		close(w.reached)
	}
	return true
}
