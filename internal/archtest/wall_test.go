package archtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// wall is one rule that the tree must keep.
type wall struct {
	name, reason string
	// subject is a folder or file without which the wall would guard nothing. A wall
	// for a room that is not built yet names none.
	subject string
	// breaches lists every place where the rule is broken.
	breaches func(t *tree) []string
	// plant holds files that break the rule, and perhaps some that do not; found is how
	// many breaches there must be.
	plant map[string]string
	found int
}

// allWalls is every wall of the house.
func allWalls() []wall {
	var all []wall
	for _, group := range [][]wall{coreWalls, wireWalls, programWalls, testCodeWalls, pureWalls, callWalls, sizeWalls, textWalls} {
		all = append(all, group...)
	}
	return all
}

func TestWalls(t *testing.T) {
	all := checkout(t)
	seen := map[string]bool{}
	for _, w := range allWalls() {
		require.False(t, seen[w.name], "two walls are named %q", w.name)
		seen[w.name] = true
		t.Run(w.name, func(t *testing.T) {
			found := w.breaches(planted(t, w.plant))
			require.Len(t, found, w.found, "the wall is blind: it must find the planted breaches")
			if w.subject != "" {
				_, err := os.Stat(filepath.Join(all.root, w.subject))
				require.NoError(t, err, "what the wall guards is gone; move the wall with it")
			}
			for _, breach := range w.breaches(all) {
				t.Errorf("wall %q: %s\n\treason: %s", w.name, breach, w.reason)
			}
		})
	}
}

// imports finds imports that a rule forbids, in production files only.
func imports(forbidden func(s *source, imported string) bool) func(*tree) []string {
	return func(t *tree) []string {
		var found []string
		for _, s := range t.files {
			if s.test {
				continue
			}
			for _, imported := range s.imports {
				if forbidden(s, imported) {
					found = append(found, s.path+" imports "+imported)
				}
			}
		}
		return found
	}
}

// importing makes a planted file's text.
func importing(pkg string, paths ...string) string {
	text := "// Package " + pkg + " is planted.\npackage " + pkg + "\n\n"
	for _, p := range paths {
		text += "import _ \"" + p + "\"\n"
	}
	return text
}
