package selftest

import (
	"fmt"
	"strings"
)

// Text is the matrix for people: a line per mutant, then what is wrong.
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
		fmt.Fprintf(&b, "%-8s  %-*s  %s\n", mark, width, r.Mutant, strings.Join(r.Found, " "))
		if len(r.Silent) > 0 {
			fmt.Fprintf(&b, "          %-*s  did not find it: %s\n", width, "", strings.Join(r.Silent, " "))
		}
		if len(r.Surprising) > 0 {
			fmt.Fprintf(&b, "          %-*s  found it, and are not on its list: %s\n", width, "", strings.Join(r.Surprising, " "))
		}
		if r.Error != "" {
			fmt.Fprintf(&b, "          %-*s  %s\n", width, "", r.Error)
		}
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
		fmt.Fprintf(&b, "cases that no mutant proves: %s\n", strings.Join(m.Unproven, " "))
	}
	return b.String()
}
