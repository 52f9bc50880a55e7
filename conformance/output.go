package conformance

import "sync"

// outputMax is how much of a sink's output is kept.
const outputMax = 16 << 10

// output keeps the last of what a sink prints. It takes everything at once, so a sink that
// floods its output is neither held up nor held in memory.
type output struct {
	mu   sync.Mutex
	kept []byte
	lost bool
	all  int64
}

// Write keeps the end of p; it never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	o.all += int64(n)
	if len(p) > outputMax {
		p, o.lost = p[len(p)-outputMax:], true
	}
	if over := len(o.kept) + len(p) - outputMax; over > 0 {
		o.kept, o.lost = append(o.kept[:0], o.kept[over:]...), true
	}
	o.kept = append(o.kept, p...)
	return n, nil
}

// Printed is how many bytes there were.
func (o *output) Printed() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all
}

// Since is what was kept of what came after so many bytes.
func (o *output) Since(mark int64) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if from := int64(len(o.kept)) - (o.all - mark); from >= 0 {
		return string(o.kept[from:])
	}
	return "..." + string(o.kept)
}

// String is what was kept; "..." stands for what came before.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost {
		return "..." + string(o.kept)
	}
	return string(o.kept)
}
