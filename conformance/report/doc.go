// Package report writes what a run of the suite found: for a person at a terminal (Text),
// for other programs (JSON lines, JUnit XML, TAP), for a README (Markdown, a badge), and as
// one HTML page that needs nothing beside itself.
//
// A report holds ids, counts, codes and hashes. Row values are in it only where
// conformance.Options.ShowValues put them into the results, and what the sink printed only
// where a case failed.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// formats writes a summary, by name.
var formats = map[string]func(io.Writer, *conformance.Summary) error{
	"text": Text, "jsonl": JSONLines, "junit": JUnit, "tap": TAP,
	"markdown": Markdown, "badge": Badge, "html": HTML,
}

// Formats are the names that Write knows, sorted.
func Formats() []string {
	var names []string
	for name := range formats {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Write writes a summary in a format by name.
func Write(w io.Writer, format string, s *conformance.Summary) error {
	write := formats[format]
	if write == nil {
		return fmt.Errorf("no report format %q; there are %s", format, strings.Join(Formats(), ", "))
	}
	return write(w, s)
}

// verdict is the run in a few words.
func verdict(s *conformance.Summary) string {
	switch {
	case s.Conformant && s.Exhaustive:
		return "conformant, every crash point visited"
	case s.Conformant:
		return "conformant, crash points sampled"
	case s.Exit == conformance.ExitPass:
		return "no failure, not conformant"
	case s.Exit != conformance.ExitFailures:
		return "not found out"
	}
	return "not conformant"
}

// group is the first part of a case's id.
func group(id string) string {
	name, _, _ := strings.Cut(id, "-")
	return name
}

// failed reports whether a result needs a reader's attention.
func failed(r *conformance.Result) bool {
	return r.Verdict == conformance.Fail || r.Verdict == conformance.Broken || r.Verdict == conformance.Warn
}

// counts are the verdicts of all results.
type counts struct{ pass, fail, warn, broken, known, skipped int }

func count(s *conformance.Summary) (c counts) {
	for i := range s.Results {
		switch r := &s.Results[i]; {
		case r.Known:
			c.known++
		case r.Verdict == conformance.Pass:
			c.pass++
		case r.Verdict == conformance.Fail:
			c.fail++
		case r.Verdict == conformance.Warn:
			c.warn++
		case r.Verdict == conformance.Broken:
			c.broken++
		default:
			c.skipped++
		}
	}
	return c
}

// why is the reason of a result that did not pass, in a line.
func why(r *conformance.Result) string {
	switch {
	case r.Failure != nil:
		return firstLine(r.Failure.What)
	case r.Skip != "":
		return strings.TrimSuffix(string(r.Skip)+": "+firstLine(r.Why), ": ")
	}
	return firstLine(r.Why)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
