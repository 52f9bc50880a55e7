// Package transcript keeps what a program or a log writes, for tests that read it meanwhile.
package transcript

import (
	"bytes"
	"sync"
)

// Text grows by writing and may be read at any time. Its zero value is empty.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends; it never fails.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String is all that was written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
