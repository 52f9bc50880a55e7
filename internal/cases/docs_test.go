package cases_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	listed = regexp.MustCompile(`(?m)^\| ([A-Z]\d\d) \|[^|]+\|[^|]+\| ([^|]+) \|$`)
	named  = regexp.MustCompile("`([^`]+)`")
	tested = regexp.MustCompile(`(?m)^func (Test([A-Z]\d\d)[A-Z]\w*)\(`)
)

// docs/cases.md and the tests of the whole tree name the same cases: each line names the
// tests of its id, all of them.
func TestEveryCaseIsListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/cases.md")
	require.NoError(t, err)
	inPage := map[string][]string{}
	for _, match := range listed.FindAllStringSubmatch(string(page), -1) {
		id := match[1]
		require.NotContains(t, inPage, id, "listed twice")
		for _, name := range named.FindAllStringSubmatch(match[2], -1) {
			inPage[id] = append(inPage[id], name[1])
		}
		require.NotEmpty(t, inPage[id], id)
	}
	require.Greater(t, len(inPage), 95)
	require.Equal(t, inTree(t), inPage)
}

// inTree finds the tests by case.
func inTree(t *testing.T) map[string][]string {
	found := map[string][]string{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range tested.FindAllStringSubmatch(string(text), -1) {
			found[match[2]] = append(found[match[2]], match[1])
		}
		return err
	}))
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}
