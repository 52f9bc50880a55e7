package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one patch file.
type mutant struct {
	id, name string // "003", "drop-the-compare-and-set"
	file     string
	what     string
	rule     string
	tests    []suite
	env      []string
	paths    []string // files that the diff changes, relative to the checkout
}

// suite is a package and the tests in it that are meant.
type suite struct {
	dir string // "./core/wal" of Go, "examples/python-sink" of pytest
	run string
}

func (s suite) python() bool { return !strings.HasPrefix(s.dir, "./") }

func (s suite) String() string { return s.dir + " " + s.run }

var (
	fileName = regexp.MustCompile(`^([0-9]{3})-([a-z0-9-]+)\.patch$`)
	headLine = regexp.MustCompile(`^# (what|rule|test|env): (\S.*)$`)
)

// load reads the patches of a folder in the order of their ids; only, if not empty, names
// the ids that are wanted.
func load(folder string, only []string) ([]*mutant, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var all []*mutant
	var faults []error
	seen := map[string]bool{}
	for _, file := range files {
		m, err := read(file)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", filepath.Base(file), err))
			continue
		}
		if seen[m.id] {
			faults = append(faults, fmt.Errorf("%s: another patch has this number", filepath.Base(file)))
		}
		seen[m.id] = true
		if len(only) == 0 || slices.Contains(only, m.id) {
			all = append(all, m)
		}
	}
	for _, id := range only {
		if !seen[id] {
			faults = append(faults, fmt.Errorf("no patch has the number %s", id))
		}
	}
	if len(all) == 0 {
		faults = append(faults, errors.New("no patches"))
	}
	return all, errors.Join(faults...)
}

func read(file string) (*mutant, error) {
	named := fileName.FindStringSubmatch(filepath.Base(file))
	if named == nil {
		return nil, errors.New("the name is not NNN-words.patch")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m := &mutant{id: named[1], name: named[2], file: file}
	return m, m.parse(string(text))
}

// parse reads head and diff. A line that is neither is refused, so that no word of the
// head is lost to a slip.
func (m *mutant) parse(text string) error {
	head, diff, found := strings.Cut(text, "\ndiff --git ")
	if !found {
		return errors.New("no diff behind the head")
	}
	for line := range strings.Lines(head) {
		if err := m.head(strings.TrimRight(line, "\n")); err != nil {
			return err
		}
	}
	if m.what == "" || m.rule == "" || len(m.tests) == 0 {
		return errors.New("what, rule and test must be said")
	}
	for line := range strings.Lines(diff) {
		if path, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "+++ b/"); ok {
			m.paths = append(m.paths, path)
		}
	}
	if len(m.paths) == 0 {
		return errors.New("the diff changes no file")
	}
	return nil
}

func (m *mutant) head(line string) error {
	word := headLine.FindStringSubmatch(line)
	if word == nil {
		return fmt.Errorf("a line of the head that is not understood: %q", line)
	}
	switch value := word[2]; word[1] {
	case "what":
		m.what = value
	case "rule":
		m.rule = value
	case "env":
		m.env = append(m.env, value)
	case "test":
		dir, run, found := strings.Cut(value, " ")
		if !found {
			return errors.New("test names a package and a test")
		}
		m.tests = append(m.tests, suite{dir, run})
	}
	return nil
}
