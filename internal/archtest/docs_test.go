package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mapped reads the folders that a code map names: the first word of each line inside
// the fences of the section "Code map", where it ends in a slash.
func mapped(text string) []string {
	var dirs []string
	in, fenced := false, false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "## "):
			in = strings.Contains(line, "Code map")
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case in && fenced:
			if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasSuffix(word, "/") {
				dirs = append(dirs, strings.TrimSuffix(word, "/"))
			}
		}
	}
	return dirs
}

func TestArchitectureNamesEveryFolder(t *testing.T) {
	require.Equal(t, []string{"core", "core/wal"}, mapped("## Other\n```\nx/\n```\n## Code map\n```\ncore/   nouns\n  core/wal/ stream\nnotes\n```\n## End\n```\ny/\n```\n"))

	all := checkout(t)
	text, err := os.ReadFile(filepath.Join(all.root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 250, "a map of more than 250 lines is not read")
	named := mapped(string(text))
	for _, dir := range named {
		require.DirExists(t, filepath.Join(all.root, dir), "ARCHITECTURE.md names a folder that does not exist")
	}
	var missing []string
	for _, s := range all.files {
		if !slices.Contains(named, s.dir()) && !slices.Contains(missing, s.dir()) && s.dir() != "proto" && s.dir() != "tools" {
			missing = append(missing, s.dir())
		}
	}
	require.Empty(t, missing, "folders with Go code that ARCHITECTURE.md's code map does not name")
}

var linkTo = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// deadLinks lists the relative links of a page whose file does not exist.
func deadLinks(page, text string, exists func(string) bool) []string {
	var dead []string
	for _, match := range linkTo.FindAllStringSubmatch(text, -1) {
		target, _, _ := strings.Cut(match[1], "#")
		if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		if file := path.Join(path.Dir(page), target); !exists(file) {
			dead = append(dead, page+" links to "+target)
		}
	}
	return dead
}

func TestLinksLeadSomewhere(t *testing.T) {
	require.Len(t, deadLinks("docs/a.md", "[x](b.md#y) [z](../README.md) [w](https://example.org)",
		func(file string) bool { return file == "README.md" }), 1)

	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	pages := 0
	walk(t, root, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		pages++
		for _, dead := range deadLinks(name, string(text), func(file string) bool {
			_, err := os.Stat(filepath.Join(root, file))
			return err == nil
		}) {
			t.Error(dead)
		}
	})
	require.Positive(t, pages)
}

func TestDecisionsAreListed(t *testing.T) {
	list, err := os.ReadFile("../../docs/adr/README.md")
	require.NoError(t, err)
	records, err := filepath.Glob("../../docs/adr/[0-9]*.md")
	require.NoError(t, err)
	require.NotEmpty(t, records)
	for _, record := range records {
		require.Contains(t, string(list), "("+filepath.Base(record)+")", "docs/adr/README.md does not list it")
	}
}

// unfit are texts that a public tree must not carry. The pattern's parts are joined, so
// that this file does not carry them itself.
var unfit = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a folder of somebody's machine", regexp.MustCompile(`(^|[\s"'=(:` + "`" + `])/(home|Users|root|work)/[A-Za-z]`)},
	{"a note of unfinished work", regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)},
	{"a merge conflict", regexp.MustCompile(`(?m)^(<<<<` + `<<<|>>>>` + `>>>) `)},
}

// unfitIn lists what a text carries that it must not.
func unfitIn(name, text string) []string {
	var found []string
	for _, u := range unfit {
		for _, at := range u.pattern.FindAllStringIndex(text, -1) {
			found = append(found, fmt.Sprintf("%s:%d has %s", name, 1+strings.Count(text[:at[0]], "\n"), u.what))
		}
	}
	return found
}

func TestTreeCarriesNothingUnfit(t *testing.T) {
	require.Len(t, unfitIn("a", "see /home"+"/ann/x\n// TO"+"DO: later\nhttps://example.org/home/x\n"), 2)

	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	walk(t, root, func(name string, text []byte) {
		binary := slices.Contains(text[:min(len(text), 8000)], 0)
		if binary || strings.HasSuffix(name, "package-lock.json") || strings.HasSuffix(name, "go.sum") {
			return
		}
		for _, found := range unfitIn(name, string(text)) {
			t.Error(found)
		}
	})
}

// namesRegistry finds a lock file's line that says from which host a package comes.
var namesRegistry = regexp.MustCompile(`"resolved"|(?m)^\s*(--index-url|--extra-index-url|-i )`)

func TestLocksNameNoRegistry(t *testing.T) {
	require.True(t, namesRegistry.MatchString(`  "resolved": "x"`))

	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	locks := 0
	walk(t, root, func(name string, text []byte) {
		base := path.Base(name)
		if base != "package-lock.json" && !(strings.HasPrefix(base, "requirements") && strings.HasSuffix(base, ".txt")) {
			return
		}
		locks++
		require.False(t, namesRegistry.Match(text),
			"%s names a registry host; whoever installs chooses theirs (npm: --omit-lockfile-registry-resolved)", name)
	})
	require.Positive(t, locks)
}
