package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// Shown of a failure at a terminal; the whole is in the other formats.
const (
	stepsShown  = 12
	outputShown = 12
)

// failure prints one failure in full: what was wrong, what the rule is, what usually is
// the reason, what was sent, and how to run just this.
func (t *Terminal) failure(r *conformance.Result) {
	w := word(r)
	fmt.Fprintf(t.W, "\n%s %s  %s  (%s, %s)\n", t.paint(w, w), r.ID, r.Title, r.Profile, r.Level)
	say := func(name, text string) {
		if text = strings.TrimRight(text, " \n"); text != "" {
			fmt.Fprintf(t.W, "  %-9s %s\n", name, strings.ReplaceAll(text, "\n", "\n            "))
		}
	}
	if f := r.Failure; f != nil {
		say("what", f.What)
		say("expected", f.Expected)
		say("found", f.Found)
		for i := range f.Tables {
			say("rows", diffText(&f.Tables[i]))
		}
		say("rules", strings.Join(f.Rules, " ")+suffix(len(f.Rules) > 0, "  (docs/protocol.md)"))
		say("usually", f.Cause)
	} else {
		say("what", r.Why)
	}
	for i := range r.Crashes {
		for _, p := range r.Crashes[i].Points {
			if p.Side == conformance.Torn {
				say("torn", fmt.Sprintf("%s: at point %d, %s: %s", r.Crashes[i].Label, p.N, p.Call, p.Detail))
			}
		}
	}
	say("calls", stepsText(r.Steps)) // times stand under each other
	say("printed", tailLines(plain(r.Output), outputShown))
	say("again", r.Reproduce)
}

func suffix(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// step is one call, or several in a row that ended alike.
type step struct {
	conformance.Step
	Times int
}

// folded joins calls in a row that ended alike, and leaves out those that found a sink which
// was still starting: they would hide the call in question.
func folded(steps []conformance.Step) []step {
	var out []step
	for i, s := range steps {
		last := len(out) - 1
		switch {
		case starting(s) && i+1 < len(steps) && steps[i+1].What == s.What:
		case last >= 0 && out[last].What == s.What && out[last].Code == s.Code && out[last].Reason == s.Reason && out[last].Position == s.Position:
			out[last].Times++
		default:
			out = append(out, step{s, 1})
		}
	}
	return out
}

func starting(s conformance.Step) bool {
	return s.What == "GetCapabilities" && s.Code == codes.Unavailable.String()
}

func stepsText(all []conformance.Step) string {
	var lines []string
	steps := folded(all)
	if n := len(steps) - stepsShown; n > 0 {
		lines = append(lines, fmt.Sprintf("(%d before)", n))
		steps = steps[n:]
	}
	for _, s := range steps {
		line := fmt.Sprintf("%8s  %s", s.At.Round(time.Millisecond), s.What)
		for _, part := range []string{s.Code, s.Reason, s.Position} {
			if part != "" {
				line += "  " + part
			}
		}
		if s.Times > 1 {
			line += fmt.Sprintf("  x%d", s.Times)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// diffText shows a table's difference by key: - is what must be there, + what is.
func diffText(d *conformance.TableDiff) string {
	lines := []string{fmt.Sprintf("%s.%s (%s): %d expected, %d found; %d missing, %d too many, %d different",
		d.Schema, d.Table, strings.Join(d.Columns, ", "), d.Expected, d.Found, d.Missing, d.Surplus, d.Changed)}
	for _, r := range d.Rows {
		if r.Expected != nil {
			lines = append(lines, "- "+strings.Join(r.Expected, " | "))
		}
		if r.Found != nil {
			lines = append(lines, "+ "+strings.Join(r.Found, " | "))
		}
	}
	return strings.Join(lines, "\n")
}

// tailLines are the last lines, each once where it is repeated: a sink that was killed forty
// times says forty times that it listens.
func tailLines(text string, n int) string {
	lines := slices.Compact(strings.Split(strings.TrimSpace(text), "\n"))
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
