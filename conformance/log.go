package conformance

import (
	"bytes"
	"fmt"
	"slices"
)

// compareLog gives the first difference between an append log and what it must hold, as
// a text without values.
func compareLog(want, have []LogEntry) string {
	for i := range max(len(want), len(have)) {
		switch {
		case i >= len(have):
			return fmt.Sprintf("entry %d of %d is missing: %s", i+1, len(want), want[i].title())
		case i >= len(want):
			return fmt.Sprintf("entry %d is too much: %s", i+1, have[i].title())
		}
		if d := want[i].differs(&have[i]); d != "" {
			return fmt.Sprintf("entry %d should be %s: %s", i+1, want[i].title(), d)
		}
	}
	return ""
}

func (e *LogEntry) title() string {
	at := fmt.Sprintf("%s of %s.%s", e.Op, e.Schema, e.Table)
	if e.CommitLSN != 0 {
		at += fmt.Sprintf(" at %s/%d", lsnText(e.CommitLSN), e.Ordinal)
	}
	return at
}

// differs compares one entry, columns by name.
func (e *LogEntry) differs(have *LogEntry) string {
	switch {
	case e.Op != have.Op || e.Schema != have.Schema || e.Table != have.Table:
		return "it is " + have.title()
	case e.CommitLSN != have.CommitLSN || e.Ordinal != have.Ordinal:
		return "it stands at " + have.title()
	case !bytes.Equal(e.RunID, have.RunID):
		return "its run id is another"
	case !bytes.Equal(e.Prefix, have.Prefix) || !bytes.Equal(e.Content, have.Content):
		return "prefix or content differ"
	}
	for i, name := range e.Columns {
		if e.Kinds[i] == letterAbsent {
			continue
		}
		at := slices.Index(have.Columns, name)
		if at < 0 || at >= len(have.Kinds) {
			return "a column is missing"
		}
		if e.Kinds[i] != have.Kinds[at] {
			return fmt.Sprintf("column %d has the letter %q, not %q", i+1, have.Kinds[at], e.Kinds[i])
		}
		if !bytes.Equal(e.Values[i].Text, have.Values[at].Text) {
			return fmt.Sprintf("the value of column %d differs", i+1)
		}
	}
	return ""
}
