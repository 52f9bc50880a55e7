package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// Terminal prints results as they come, and the whole at the end. Its methods are called
// from one goroutine.
type Terminal struct {
	W io.Writer
	// Color marks verdicts by colour.
	Color bool
	// Verbose prints skipped cases and the calls of passed ones too.
	Verbose bool
	// failures are told again at the end: they are what is looked for.
	failures []conformance.Result
	group    string
}

// Text writes a finished run as Terminal would, without colours.
func Text(w io.Writer, s *conformance.Summary) error {
	b := &strings.Builder{}
	t := &Terminal{W: b}
	for _, r := range s.Results {
		t.Result(r)
	}
	t.Summary(s)
	_, err := io.WriteString(w, b.String())
	return err
}

var colors = map[string]string{"PASS": "32", "FAIL": "1;31", "WARN": "33", "BROKEN": "1;35", "SKIP": "2", "KNOWN": "33"}

func (t *Terminal) paint(word, text string) string {
	if !t.Color || colors[word] == "" {
		return text
	}
	return "\x1b[" + colors[word] + "m" + text + "\x1b[0m"
}

func word(r *conformance.Result) string {
	if r.Known {
		return "KNOWN"
	}
	return strings.ToUpper(string(r.Verdict))
}

// Result prints one case in a line, and of one that crashed the sink its crash points.
func (t *Terminal) Result(r conformance.Result) {
	w := word(&r)
	if w == "SKIP" && !t.Verbose {
		return
	}
	if g := group(r.ID); g != t.group {
		t.group = g
		fmt.Fprintln(t.W)
	}
	line := fmt.Sprintf("%-7s %s", r.ID, r.Title)
	fmt.Fprintf(t.W, "%s %s%s\n", t.paint(w, fmt.Sprintf("%-6s", w)), line, took(r.Duration))
	for i := range r.Crashes {
		fmt.Fprintf(t.W, "       %s\n", crashLine(&r.Crashes[i]))
	}
	if w != "PASS" {
		if text := why(&r); text != "" {
			fmt.Fprintf(t.W, "       %s\n", text)
		}
	}
	if failed(&r) && !r.Known {
		t.failures = append(t.failures, r)
	}
}

func took(d time.Duration) string {
	if d < 100*time.Millisecond {
		return ""
	}
	return fmt.Sprintf("  (%s)", short(d))
}

func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// crashLine is a map in a line: "batch of 3 rows: 24 points by calls: 19 before, 5 after".
func crashLine(m *conformance.CrashMap) string {
	n := map[conformance.CrashSide]int{}
	for _, p := range m.Points {
		n[p.Side]++
	}
	visited := len(m.Points) - n[conformance.Survived]
	of := ""
	if m.Sampled && m.Total > 0 {
		of = fmt.Sprintf(" of %d", m.Total)
	}
	text := fmt.Sprintf("%s: %d%s points by %s: %d before, %d after", m.Label, visited, of, m.Engine, n[conformance.Before], n[conformance.After])
	if n[conformance.Torn] > 0 {
		text += fmt.Sprintf(", %d TORN", n[conformance.Torn])
	}
	if m.Sampled {
		text += " (sampled)"
	}
	return text
}

// Summary prints the failures in full, the profiles and the verdict.
func (t *Terminal) Summary(s *conformance.Summary) {
	for i := range t.failures {
		t.failure(&t.failures[i])
	}
	fmt.Fprintf(t.W, "\n%s\n\n", sinkLine(s))
	fmt.Fprintf(t.W, "%-12s %5s %5s %5s %7s %6s   %s\n", "profile", "pass", "fail", "warn", "broken", "known", "skipped: n/a, not possible, by user")
	for _, p := range s.Profiles {
		if !p.Applies {
			continue
		}
		fmt.Fprintf(t.W, "%-12s %5d %5d %5d %7d %6d   %d, %d, %d\n", p.Profile, p.Pass, p.Fail, p.Warn, p.Broken, p.Known, p.NotApplicable, p.NotPossible, p.ByUser)
	}
	fmt.Fprintln(t.W)
	for _, n := range s.Notes {
		fmt.Fprintf(t.W, "note: %s\n", n)
	}
	for _, w := range s.Why {
		fmt.Fprintf(t.W, "not conformant: %s\n", clip(w))
	}
	if s.Begin != "" {
		fmt.Fprintf(t.W, "begin with %s\n", s.Begin)
	}
	c := count(s)
	mark := "FAIL"
	if s.Conformant {
		mark = "PASS"
	} else if s.Exit == conformance.ExitPass {
		mark = "WARN"
	}
	fmt.Fprintf(t.W, "%s: %d passed, %d failed, %d warned, %d broken, %d known, %d skipped in %s; seed %d; exit %d\n",
		t.paint(mark, strings.ToUpper(verdict(s))), c.pass, c.fail, c.warn, c.broken, c.known, c.skipped,
		short(time.Duration(s.Duration)), s.Seed, s.Exit)
}

func sinkLine(s *conformance.Summary) string {
	return fmt.Sprintf("sink %s %s, %s, %s; advertises %s", cmp.Or(nameOf(s), "without a name"), versionOf(s),
		strings.ReplaceAll(s.Sink.Kind, "_", " "), s.Mode, strings.Join(append(s.Sink.Capabilities, fencings(s)...), " "))
}

// nameOf and versionOf are what a sink calls itself, also where the lines of the report were
// written by another program.
func nameOf(s *conformance.Summary) string { return conformance.Printable(s.Sink.Name, 100) }

func versionOf(s *conformance.Summary) string { return conformance.Printable(s.Sink.Version, 100) }

func fencings(s *conformance.Summary) (all []string) {
	for _, f := range s.Sink.Fencing {
		all = append(all, "fencing:"+f)
	}
	return all
}

// clip keeps a line of many ids readable; the other formats have all of them.
func clip(s string) string {
	words := strings.Fields(s)
	const most = 24
	if len(words) <= most {
		return s
	}
	return strings.Join(words[:most], " ") + fmt.Sprintf(" and %d more", len(words)-most)
}
