package bars

import (
	"fmt"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// Meter knows how fast a copy goes from when it was looked at. It is for one goroutine.
type Meter struct {
	since   time.Time // of the copy
	samples []sample
}

type sample struct {
	at   time.Time
	rows int64
}

// The speed is that of the last while: a copy may wait, or go on from before.
const (
	window = 15 * time.Second
	least  = time.Second
)

// rate is rows a second; 0 while nothing can be said.
func (m *Meter) rate(c *pipeline.CopyStatus, now time.Time) float64 {
	if n := len(m.samples); !m.since.Equal(c.Since) || n > 0 && c.Rows < m.samples[n-1].rows {
		m.since, m.samples = c.Since, nil
	}
	m.samples = append(m.samples, sample{now, c.Rows})
	for len(m.samples) > 2 && now.Sub(m.samples[1].at) >= window {
		m.samples = m.samples[1:]
	}
	first := m.samples[0]
	if now.Sub(first.at) < least {
		return 0
	}
	return float64(c.Rows-first.rows) / now.Sub(first.at).Seconds()
}

// sums is the tables of a copy, added up.
type sums struct {
	tables, done, pending int
	// rows of about estimate; estimate is 0 where a table has none.
	rows, estimate int64
}

func sum(c *pipeline.CopyStatus) sums {
	s, known := sums{rows: c.Rows}, true
	for i := range c.Tables {
		t := &c.Tables[i]
		if t.Earlier {
			continue
		}
		s.tables++
		switch t.State {
		case pipeline.TableDone:
			s.done++
			s.estimate += t.Rows
		case pipeline.TablePending, pipeline.TableCopying:
			if t.State == pipeline.TablePending {
				s.pending++
			}
			known = known && t.EstimatedRows >= 0
			s.estimate += max(t.EstimatedRows, t.Rows)
		default:
			s.estimate += t.Rows
		}
	}
	if !known {
		s.estimate = 0
	}
	return s
}

// percent is never 100 before the end: an estimate may be too low.
func percent(rows, estimate int64) int {
	if estimate <= 0 {
		return 0
	}
	return int(min(max(rows, 0)*100/estimate, 99))
}

// headline says the most important first.
func (m *Meter) headline(c *pipeline.CopyStatus, now time.Time) []string {
	s := sum(c)
	parts := []string{fmt.Sprintf("copy: %d of %d tables", s.done, s.tables)}
	if c.Phase != pipeline.CopyRuns {
		parts = []string{"copy: " + string(c.Phase), fmt.Sprintf("%d of %d tables", s.done, s.tables)}
	}
	rows := short(s.rows) + " rows"
	if s.estimate > 0 {
		rows = fmt.Sprintf("%d%% of about %s rows", percent(s.rows, s.estimate), short(s.estimate))
	}
	parts = append(parts, rows)
	if c.Phase != pipeline.CopyRuns {
		return parts
	}
	if rate := m.rate(c, now); rate >= 1 {
		parts = append(parts, short(int64(rate))+" rows/s")
		if left := float64(s.estimate - s.rows); left > 0 {
			parts = append(parts, "about "+age(time.Duration(left/rate*float64(time.Second)))+" left")
		}
	}
	if !c.Since.IsZero() {
		parts = append(parts, "for "+age(now.Sub(c.Since)))
	}
	return parts
}

// cost says what the source pays; empty for nothing.
func cost(c *pipeline.CopyStatus) string {
	text := ""
	const worthAWord = 1 << 20
	if c.HeldBytes >= worthAWord {
		text = bytesOf(c.HeldBytes) + " of WAL held"
	}
	if c.XminAge > 0 {
		if text != "" {
			text += ", "
		}
		text += "clean-up held back for " + short(c.XminAge) + " transactions"
	}
	if text == "" {
		return ""
	}
	return "at the source: " + text
}

// short is a count in at most six signs.
func short(n int64) string {
	return scaled(float64(n), 1000, "", "k", "M", "G", "T")
}

func bytesOf(n int64) string {
	return scaled(float64(n), 1024, " B", " KiB", " MiB", " GiB", " TiB")
}

func scaled(f, step float64, units ...string) string {
	i := 0
	for f >= step && i < len(units)-1 {
		f, i = f/step, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%.0f%s", f, units[0])
	}
	return fmt.Sprintf("%.1f%s", f, units[i])
}

// age is a length of time in two units at most.
func age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
