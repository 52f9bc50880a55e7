// Package bars shows a copy of tables: on a terminal a bar for each table that is being
// copied, redrawn in place below the lines of the log, and lines elsewhere.
package bars

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// Screen keeps what Draw drew below the lines that go Through it. It is for a terminal, and
// safe for use by several goroutines.
type Screen struct {
	mu    sync.Mutex
	out   io.Writer
	drawn []string
}

// NewScreen draws on out.
func NewScreen(out io.Writer) *Screen { return &Screen{out: out} }

// Through is a writer of whole lines to out, which may be the screen's own terminal by
// another name: what is drawn is taken away before and drawn again after.
func (s *Screen) Through(out io.Writer) io.Writer { return &through{s, out} }

type through struct {
	screen *Screen
	out    io.Writer
}

// Unwrap is what stands behind, for those who ask whether it is a terminal.
func (t *through) Unwrap() io.Writer { return t.out }

// Write passes lines on.
func (t *through) Write(p []byte) (int, error) {
	s := t.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.drawn) == 0 || !bytes.HasSuffix(p, []byte("\n")) {
		return t.out.Write(p)
	}
	_, _ = io.WriteString(s.out, s.erase())
	n, err := t.out.Write(p)
	_, _ = io.WriteString(s.out, join(s.drawn))
	return n, err
}

// Draw replaces what was drawn. Without lines it takes it away.
func (s *Screen) Draw(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.erase() + join(lines)
	s.drawn = lines
	if text != "" {
		_, _ = io.WriteString(s.out, text)
	}
}

// erase goes up to the first drawn line and clears from there on.
func (s *Screen) erase() string {
	if len(s.drawn) == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", len(s.drawn))
}

func join(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// Sizes of a terminal.
const (
	widthMin     = 40
	widthDefault = 80
)

// Width is how many columns a line may have: one that is broken by the terminal could not be
// taken away again. It follows the window.
func (s *Screen) Width() int {
	out := s.out
	for {
		outer, ok := out.(interface{ Unwrap() io.Writer })
		if !ok {
			break
		}
		out = outer.Unwrap()
	}
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return max(width-1, widthMin)
		}
	}
	return widthDefault - 1
}

// interval is how often the bars are redrawn.
const interval = 250 * time.Millisecond

// Follow draws the copy until done is closed, and takes the bars away then.
func (s *Screen) Follow(status func() pipeline.Status, done <-chan struct{}) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	defer s.Draw(nil)
	var meter Meter
	for {
		s.Draw(meter.Bars(status().Copy, s.Width(), time.Now()))
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}
