// Package bars shows a copy of tables on a terminal: a bar for each table that is being
// copied, redrawn in place below the lines of the log.
package bars

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

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

// interval is how often the bars are redrawn.
const interval = 250 * time.Millisecond

// Follow draws the copy until done is closed, and takes the bars away then.
func (s *Screen) Follow(status func() pipeline.Status, done <-chan struct{}) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	defer s.Draw(nil)
	for {
		s.Draw(Lines(status().Copy))
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// Sizes of what is drawn.
const (
	barWidth  = 24
	nameWidth = 32
	barsMax   = 8
)

// Lines is the copy as it is drawn: one line for all, and one for each table that is being
// copied. There are none where nothing is copied.
func Lines(c *pipeline.CopyStatus) []string {
	if c == nil || c.Phase == pipeline.CopyDone {
		return nil
	}
	done := 0
	for i := range c.Tables {
		if c.Tables[i].State == pipeline.TableDone {
			done++
		}
	}
	head := fmt.Sprintf("copy: %s, %d of %d tables, %s rows", c.Phase, done, len(c.Tables), short(c.Rows))
	if c.Waiting != "" {
		head += "; " + c.Waiting
	}
	lines := []string{cut(head, 3*nameWidth)}
	for i := range c.Tables {
		t := &c.Tables[i]
		if t.State != pipeline.TableCopying {
			continue
		}
		if len(lines) > barsMax {
			return append(lines, "  ...")
		}
		lines = append(lines, "  "+line(t))
	}
	return lines
}

func line(t *pipeline.TableProgress) string {
	name := cut(t.Schema+"."+t.Table, nameWidth)
	name += strings.Repeat(" ", nameWidth-utf8.RuneCountInString(name))
	if t.EstimatedRows <= 0 {
		return fmt.Sprintf("%s %s rows", name, short(t.Rows))
	}
	// The estimate may be too low: a bar is full only when the table is done.
	part := min(float64(t.Rows)/float64(t.EstimatedRows), 0.99)
	full := int(part * barWidth)
	return fmt.Sprintf("%s [%s%s] %2.0f%%  %s of about %s rows", name, strings.Repeat("#", full), strings.Repeat("-", barWidth-full),
		part*100, short(t.Rows), short(t.EstimatedRows))
}

// cut makes a name fit, and safe for a terminal.
func cut(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// short is a count in at most five signs.
func short(n int64) string {
	units := []string{"", "k", "M", "G", "T"}
	f, i := float64(n), 0
	for f >= 1000 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	if i == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%.1f%s", f, units[i])
}

// Summary is a line for what is over: every table with its state and rows. Without a copy
// it says so.
func Summary(c *pipeline.CopyStatus) []string {
	if c == nil {
		return []string{"no table is being copied"}
	}
	var lines []string
	for i := range c.Tables {
		t := &c.Tables[i]
		lines = append(lines, fmt.Sprintf("%s: %s, %s rows", cut(t.Schema+"."+t.Table, 3*nameWidth), t.State, short(t.Rows)))
	}
	return append(lines, fmt.Sprintf("copy: %s, %s rows", c.Phase, short(c.Rows)))
}
