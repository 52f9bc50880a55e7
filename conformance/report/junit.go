package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Skipped  int      `xml:"skipped,attr"`
	Time     string   `xml:"time,attr"`
	Suites   []*suite `xml:"testsuite"`
}

type suite struct {
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Time     string     `xml:"time,attr"`
	Cases    []testcase `xml:"testcase"`
	took     time.Duration
}

type testcase struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Time    string   `xml:"time,attr"`
	Failure *message `xml:"failure,omitempty"`
	Error   *message `xml:"error,omitempty"`
	Skipped *message `xml:"skipped,omitempty"`
	Output  string   `xml:"system-out,omitempty"`
}

type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the XML that CI systems read: a group of cases is a suite.
func JUnit(w io.Writer, s *conformance.Summary) error {
	all := suites{Name: "conformance of " + nameOf(s), Time: seconds(time.Duration(s.Duration))}
	byName := map[string]*suite{}
	for i := range s.Results {
		r := &s.Results[i]
		g := byName[group(r.ID)]
		if g == nil {
			g = &suite{Name: group(r.ID)}
			byName[g.Name] = g
			all.Suites = append(all.Suites, g)
		}
		c := testcase{Name: r.ID + " " + r.Title, Class: g.Name, Time: seconds(r.Duration)}
		text := xmlText(details(r))
		switch {
		case r.Known || r.Verdict == conformance.Skip || r.Verdict == conformance.Warn:
			c.Skipped = &message{Message: xmlText(word(r) + ": " + why(r))}
			g.Skipped++
		case r.Verdict == conformance.Fail:
			c.Failure = &message{xmlText(why(r)), text}
			g.Failures++
		case r.Verdict == conformance.Broken:
			c.Error = &message{xmlText(why(r)), text}
			g.Errors++
		}
		c.Output = xmlText(r.Output)
		g.Tests++
		g.took += r.Duration
		g.Cases = append(g.Cases, c)
	}
	for _, g := range all.Suites {
		g.Time = seconds(g.took)
		all.Tests, all.Failures = all.Tests+g.Tests, all.Failures+g.Failures
		all.Errors, all.Skipped = all.Errors+g.Errors, all.Skipped+g.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// details is a failure in full, as the terminal tells it.
func details(r *conformance.Result) string {
	b := &strings.Builder{}
	(&Terminal{W: b}).failure(r)
	return b.String()
}

// xmlText drops what XML cannot hold and what a terminal obeys: a sink may print any bytes.
func xmlText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || unicode.IsGraphic(r) && r != 0xFFFD {
			return r
		}
		return -1
	}, s)
}
