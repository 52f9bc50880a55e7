package selftest

import (
	"fmt"
	"strings"
)

// columns is how wide the matrix is at most.
const columns = 100

// Text is the matrix for people: a line or two per mutant, then what is wrong.
func (m *Matrix) Text() string {
	var b strings.Builder
	width := 0
	for _, r := range m.Rows {
		width = max(width, len(r.Mutant))
	}
	for _, r := range m.Rows {
		mark := "killed"
		if r.Survived() {
			mark = "SURVIVED"
		}
		say := func(first, what string, words []string) {
			if len(words) > 0 {
				wrap(&b, fmt.Sprintf("%-*s  ", 8+2+width, first), append(strings.Fields(what), words...))
			}
		}
		wrap(&b, fmt.Sprintf("%-8s  %-*s  ", mark, width, r.Mutant), strings.Fields(r.Title))
		say("", "found by", grouped(r.Found))
		say("", "NOT found by", grouped(r.Silent))
		say("", "also found by, and not on its list:", grouped(r.Surprising))
		say("", "error:", strings.Fields(r.Error))
	}
	killed := 0
	for _, r := range m.Rows {
		if !r.Survived() {
			killed++
		}
	}
	fmt.Fprintf(&b, "\n%d of %d mutants killed; clean sinks passed %d cases\n", killed, len(m.Rows), m.Passed)
	for _, c := range m.Clean {
		fmt.Fprintf(&b, "the clean sink fails: %s\n", c)
	}
	if len(m.Unproven) > 0 {
		wrap(&b, "cases that no mutant proves: ", grouped(m.Unproven))
	}
	return b.String()
}

// grouped writes ids of one group as one word: IDM-002,003,014.
func grouped(ids []string) []string {
	var words []string
	last := ""
	for _, id := range ids {
		group, number, _ := strings.Cut(id, "-")
		if group == last && len(words[len(words)-1]) < columns/3 {
			words[len(words)-1] += "," + number
			continue
		}
		words, last = append(words, id), group
	}
	return words
}

// wrap writes words behind a head, and further lines under them.
func wrap(b *strings.Builder, head string, words []string) {
	line := head
	for i, word := range words {
		if i > 0 && len(line)+len(word) > columns {
			fmt.Fprintln(b, strings.TrimRight(line, " "))
			line = strings.Repeat(" ", len(head))
		}
		line += word + " "
	}
	fmt.Fprintln(b, strings.TrimRight(line, " "))
}
