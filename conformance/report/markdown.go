package report

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// Markdown writes a section for a README: the verdict, the profiles, the failures.
func Markdown(w io.Writer, s *conformance.Summary) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "**%s** %s: %s\n\n", cell(nameOf(s)), cell(versionOf(s)), verdict(s))
	fmt.Fprintf(b, "| profile | passed | failed | warned | skipped |\n|---|---|---|---|---|\n")
	for _, p := range s.Profiles {
		if p.Applies {
			fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", p.Profile, p.Pass, p.Fail+p.Broken, p.Warn+p.Known, p.NotApplicable+p.NotPossible+p.ByUser)
		}
	}
	header := false
	for i := range s.Results {
		if r := &s.Results[i]; failed(r) {
			if !header {
				fmt.Fprintf(b, "\n| case | | |\n|---|---|---|\n")
				header = true
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", r.ID, strings.ToLower(word(r)), cell(why(r)))
		}
	}
	for _, reason := range s.Why {
		fmt.Fprintf(b, "\nNot conformant: %s\n", cell(reason))
	}
	fmt.Fprintf(b, "\nContract v1, %s, %d cases, seed %d, %s.\n", s.Mode, len(s.Results), s.Seed, s.Started.UTC().Format("2006-01-02"))
	return b.Flush()
}

// cell is text that stays in its cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`, "`", "\\`").Replace(s)
}

// svgName is what an SVG file is called by. Nothing is fetched from there.
const svgName = "http:" + "//www.w3" + ".org/2000/svg"

// Badge writes an SVG of a line: "sink contract v1 | conformant".
func Badge(w io.Writer, s *conformance.Summary) error {
	text, color := "not conformant", "#b3261e"
	switch {
	case s.Conformant && s.Exhaustive:
		text, color = "conformant, exhaustive", "#1a7f37"
	case s.Conformant:
		text, color = "conformant, sampled", "#1a7f37"
	case s.Exit == conformance.ExitPass:
		text, color = "incomplete", "#9a6700"
	case s.Exit != conformance.ExitFailures:
		text, color = "not found out", "#9a6700"
	}
	const left, unit = 116, 7
	right := len(text)*unit + 14
	title := html.EscapeString("sink contract v1: " + text)
	_, err := fmt.Fprintf(w, `<svg xmlns="%[9]s" width="%[1]d" height="20" role="img" aria-label="%[2]s">
<title>%[2]s</title>
<clipPath id="r"><rect width="%[1]d" height="20" rx="4"/></clipPath>
<g clip-path="url(#r)"><rect width="%[3]d" height="20" fill="#3d444d"/><rect x="%[3]d" width="%[4]d" height="20" fill="%[5]s"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="%[6]d" y="14">sink contract v1</text><text x="%[7]d" y="14">%[8]s</text></g>
</svg>
`, left+right, title, left, right, color, left/2, left+right/2, html.EscapeString(text), svgName)
	return err
}
