package config

import (
	"fmt"
	"regexp"
	"strings"
)

// snippets prints lines of a file around a fault, without the secrets in it.
type snippets struct {
	lines  []string
	masked map[int]int // line -> first rune that is not shown, 0 = all of it
}

const (
	linesAround = 2
	lineMax     = 160 // runes of a line that are shown
)

func newSnippets(text []byte) *snippets {
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	return &snippets{lines: lines, masked: map[int]int{}}
}

// hide masks the lines from..to; on the first one the runes up to keep stay readable.
func (s *snippets) hide(from, to, keep int) {
	for line := from; line <= to; line++ {
		if already, ok := s.masked[line]; !ok || keep < already {
			s.masked[line] = keep
		}
		keep = 0
	}
}

func (s *snippets) hidden(line int) bool {
	_, ok := s.masked[line]
	return ok
}

// password finds what must not be shown wherever it stands, comments included.
var password = regexp.MustCompile(`(?i)://\S*@|passw|pwd|secret|#.*(sourc|dsn|=)`)

var suspect = regexp.MustCompile(`(?i)://|@|=|pass|pwd|secret|token|source|dsn`)

// hideSuspects masks every line that may be a part of a secret, for files that could
// not be parsed: lines that look like one, and what is indented below them.
func (s *snippets) hideSuspects() {
	for i, text := range s.lines {
		if suspect.MatchString(text) {
			line := i + 1
			s.hide(line, s.endOfBlock(line, indent(text)+1), 0)
		}
	}
}

// endOfBlock is the last line that is indented deeper than column (from 1), or blank.
func (s *snippets) endOfBlock(line, column int) int {
	for line < len(s.lines) {
		next := s.lines[line]
		if strings.TrimSpace(next) != "" && indent(next) < column {
			break
		}
		line++
	}
	return line
}

func indent(text string) int { return len(text) - len(strings.TrimLeft(text, " \t")) }

// around shows the line with its neighbours and a caret under the column.
func (s *snippets) around(line, column int) string {
	var b strings.Builder
	for n := max(1, line-linesAround); n <= min(len(s.lines), line+linesAround); n++ {
		if n == len(s.lines) && s.lines[n-1] == "" && n != line {
			continue // what stands after the last line break
		}
		mark := " "
		if n == line {
			mark = ">"
		}
		fmt.Fprintf(&b, "%s %3d | %s\n", mark, n, s.shown(n))
		if n == line {
			fmt.Fprintf(&b, "      | %s^\n", strings.Repeat(" ", max(0, min(column, lineMax)-1)))
		}
	}
	return b.String()
}

// shown is a line as it may be printed: masked, cut, without control characters.
func (s *snippets) shown(line int) string {
	runes := []rune(s.lines[line-1])
	tail := ""
	if !s.hidden(line) && password.MatchString(s.lines[line-1]) {
		return "(not shown)"
	}
	if keep, ok := s.masked[line]; ok && len(runes) > keep {
		runes, tail = runes[:keep], "(not shown)"
		if keep > 0 {
			tail = ": (not shown)"
		}
	}
	if len(runes) > lineMax {
		runes, tail = runes[:lineMax], "..."
	}
	for i, r := range runes {
		if r < ' ' || r == 0x7f {
			runes[i] = ' '
		}
	}
	return string(runes) + tail
}
