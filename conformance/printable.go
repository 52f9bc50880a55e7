package conformance

import (
	"regexp"
	"strings"
	"unicode"
)

// Bounds of what a report takes of a text that the sink, or what reads its store, wrote.
const (
	nameMax  = 100
	wordsMax = 4 << 10
	whyMax   = 16 << 10
)

// notAReason stands for what a sink gave as a reason and is none: it may be a row's value.
const notAReason = "not a reason"

var reasonForm = regexp.MustCompile(`^[A-Z0-9_]{1,64}$`)

// reasonText is a reason as reports show it, "" where there is none.
func reasonText(reason string) string {
	if reason == "" || reasonForm.MatchString(reason) {
		return reason
	}
	return notAReason
}

// Printable is a text that moves no cursor, hides nothing and goes into a line: of at most
// so many letters, with "?" for what is not to be seen.
func Printable(text string, most int) string {
	return visible(text, most, func(rune) bool { return false })
}

// paragraph is the same for a text that may have lines.
func paragraph(text string, most int) string {
	return visible(text, most, func(r rune) bool { return r == '\n' || r == '\t' })
}

func visible(text string, most int, also func(rune) bool) string {
	var b strings.Builder
	n := 0
	for _, r := range text { // a byte that is no UTF-8 comes as the replacement letter
		if n++; n > most {
			return b.String() + "..."
		}
		if !unicode.IsGraphic(r) && !also(r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// clean bounds all texts of a result that somebody else may have had a hand in. Output is
// kept as it was printed: each format writes it as a quotation.
func (r *Result) clean() {
	r.Why = paragraph(r.Why, whyMax)
	for i := range r.Notes {
		r.Notes[i] = Printable(r.Notes[i], wordsMax)
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		s.What, s.Code, s.Reason = Printable(s.What, wordsMax), Printable(s.Code, nameMax), reasonText(s.Reason)
	}
	for i := range r.Crashes {
		for j := range r.Crashes[i].Points {
			p := &r.Crashes[i].Points[j]
			p.Detail = Printable(p.Detail, wordsMax)
		}
	}
	f := r.Failure
	if f == nil {
		return
	}
	f.What, f.Expected, f.Found = paragraph(f.What, wordsMax), paragraph(f.Expected, wordsMax), paragraph(f.Found, wordsMax)
}
