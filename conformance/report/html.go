package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

// page is what the template sees.
type page struct {
	*conformance.Summary
	Name, Version string
	Verdict, Tone string
	Style         template.CSS
	Count         counted
	Failures      []*conformance.Result
	Maps          []mapped
	Groups        []grouped
}

type counted struct{ Pass, Fail, Warn, Broken, Known, Skipped int }

// mapped is a crash-point map with the case it is of.
type mapped struct {
	Case *conformance.Result
	*conformance.CrashMap
	Before, After, Torn, Visited int
}

type grouped struct {
	Name         string
	Cases        []*conformance.Result
	Passed, Tone string
}

// HTML writes one page without scripts, fonts, images or links to other hosts.
func HTML(w io.Writer, s *conformance.Summary) error {
	p := page{Summary: s, Name: nameOf(s), Version: versionOf(s), Verdict: verdict(s), Tone: "bad", Style: template.CSS(pageStyle)}
	if s.Conformant {
		p.Tone = "good"
	} else if s.Exit == conformance.ExitPass {
		p.Tone = "warn"
	}
	c := count(s)
	p.Count = counted{c.pass, c.fail, c.warn, c.broken, c.known, c.skipped}
	for i := range s.Results {
		r := &s.Results[i]
		if failed(r) {
			p.Failures = append(p.Failures, r)
		}
		for j := range r.Crashes {
			p.Maps = append(p.Maps, mapOf(r, &r.Crashes[j]))
		}
		p.add(r)
	}
	return pageTemplate.Execute(w, p)
}

func (p *page) add(r *conformance.Result) {
	if n := len(p.Groups); n == 0 || p.Groups[n-1].Name != group(r.ID) {
		p.Groups = append(p.Groups, grouped{Name: group(r.ID)})
	}
	g := &p.Groups[len(p.Groups)-1]
	g.Cases = append(g.Cases, r)
	passed := 0
	for _, r := range g.Cases {
		if r.Verdict == conformance.Pass {
			passed++
		}
		if failed(r) {
			g.Tone = "bad"
		}
	}
	g.Passed = fmt.Sprintf("%d of %d passed", passed, len(g.Cases))
}

func mapOf(r *conformance.Result, m *conformance.CrashMap) mapped {
	out := mapped{Case: r, CrashMap: m}
	for _, point := range m.Points {
		switch point.Side {
		case conformance.Before:
			out.Before++
		case conformance.After:
			out.After++
		case conformance.Torn:
			out.Torn++
		default:
			continue
		}
		out.Visited++
	}
	return out
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"word":   word,
	"why":    why,
	"short":  short,
	"lower":  strings.ToLower,
	"join":   strings.Join,
	"plain":  plain,
	"folded": folded,
	"space":  func(s string) string { return strings.ReplaceAll(s, "_", " ") },
	"span":   func(ns int64) string { return short(time.Duration(ns)) },
	"at":     func(d time.Duration) string { return d.Round(time.Millisecond).String() },
	"day":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	// same reports whether a cell is as expected, so that the other one stands out.
	"same": func(a, b []string, i int) bool { return i < len(a) && i < len(b) && a[i] == b[i] },
	"of":   func(all []string, i int) string { return all[i] },
}).Parse(pageSource))

// plain drops control characters, colours of a terminal among them.
func plain(s string) string { return xmlText(escapes.ReplaceAllString(s, "")) }

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)
