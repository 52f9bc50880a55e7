package bars

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// barsMax tables are drawn, at most.
const barsMax = 8

// Bars is the copy as it is drawn in so many columns: what is true of all, what it waits for
// or costs, and a bar for each table that is being copied. There are none where nothing is
// copied.
func (m *Meter) Bars(c *pipeline.CopyStatus, width int, now time.Time) []string {
	if over(c) {
		return nil
	}
	lines := []string{fitted(m.headline(c, now), width)}
	for _, note := range notes(c) {
		lines = append(lines, cut("  "+note, width))
	}
	for i := range c.Tables {
		t := &c.Tables[i]
		if t.State != pipeline.TableCopying {
			continue
		}
		if i, most := len(lines), barsMax+len(notes(c)); i > most {
			return append(lines, "  ...")
		}
		lines = append(lines, "  "+bar(t, width-2))
	}
	return lines
}

// Plain is the same without bars, for what is no terminal.
func (m *Meter) Plain(c *pipeline.CopyStatus, now time.Time) []string {
	if over(c) {
		return nil
	}
	lines := []string{strings.Join(m.headline(c, now), ", ")}
	for _, note := range notes(c) {
		lines = append(lines, "  "+note)
	}
	for i := range c.Tables {
		if t := &c.Tables[i]; t.State == pipeline.TableCopying {
			lines = append(lines, fmt.Sprintf("  %s: %s", safe(t.Schema+"."+t.Table), progress(t)))
		}
	}
	return lines
}

func over(c *pipeline.CopyStatus) bool { return c == nil || c.Phase == pipeline.CopyDone }

// notes are lines about the whole copy.
func notes(c *pipeline.CopyStatus) []string {
	var lines []string
	if c.Failing != "" {
		lines = append(lines, safe("failing: "+c.Failing))
	}
	if c.Waiting != "" {
		lines = append(lines, safe("waiting: "+c.Waiting))
	}
	if text := cost(c); text != "" {
		lines = append(lines, text)
	}
	return lines
}

// fitted leaves out the last parts where there is no room.
func fitted(parts []string, width int) string {
	text := parts[0]
	for _, part := range parts[1:] {
		if utf8.RuneCountInString(text)+len(", ")+utf8.RuneCountInString(part) > width {
			break
		}
		text += ", " + part
	}
	return cut(text, width)
}

// Widths within the line of a table.
const (
	progressWidth = len("99%  999.9k of about 999.9k rows")
	nameMin       = 12
	nameMost      = 48
	barMin        = 10
	barMost       = 40
)

func bar(t *pipeline.TableProgress, width int) string {
	room := width - progressWidth - len("  [] ") // for name and bar
	barWidth := min(max(room*2/5, barMin), barMost)
	nameWidth := min(max(room-barWidth, nameMin), nameMost)
	name := cut(t.Schema+"."+t.Table, nameWidth)
	name += strings.Repeat(" ", nameWidth-utf8.RuneCountInString(name))
	if t.EstimatedRows <= 0 {
		return cut(name+"  "+progress(t), width)
	}
	full := percent(t.Rows, t.EstimatedRows) * barWidth / 100
	return cut(fmt.Sprintf("%s [%s%s] %s", name, strings.Repeat("#", full), strings.Repeat("-", barWidth-full), progress(t)), width)
}

// progress is how far a table is; a number of rows that is not known is not guessed.
func progress(t *pipeline.TableProgress) string {
	if t.EstimatedRows <= 0 {
		return short(t.Rows) + " rows"
	}
	return fmt.Sprintf("%2d%%  %s of about %s rows", percent(t.Rows, t.EstimatedRows), short(t.Rows), short(t.EstimatedRows))
}

// cut makes a text fit, and safe for a terminal.
func cut(text string, width int) string {
	text = safe(text)
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// safe takes out what could steer a terminal.
func safe(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// Summary is a line for what is over: every table of the copy with its state and rows. Without
// a copy it says so.
func Summary(c *pipeline.CopyStatus) []string {
	if c == nil {
		return []string{"no table is being copied"}
	}
	var lines []string
	for i := range c.Tables {
		if t := &c.Tables[i]; !t.Earlier {
			lines = append(lines, fmt.Sprintf("%s: %s, %d rows", safe(t.Schema+"."+t.Table), t.State, t.Rows))
		}
	}
	return append(lines, fmt.Sprintf("copy: %s, %d rows", c.Phase, c.Rows))
}
