package cases_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	listed = regexp.MustCompile(`(?m)^\| ([A-Z]\d\d) \|`)
	tested = regexp.MustCompile(`(?m)^func Test([A-Z]\d\d)[A-Z]\w*\(`)
)

// docs/cases.md and the tests name the same cases.
func TestEveryCaseIsListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/cases.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var code []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code = append(code, text...)
	}
	ids := func(found [][][]byte) []string {
		var list []string
		for _, match := range found {
			list = append(list, string(match[1]))
		}
		slices.Sort(list)
		return list
	}
	inPage := ids(listed.FindAllSubmatch(page, -1))
	require.Greater(t, len(inPage), 45)
	require.Equal(t, slices.Compact(slices.Clone(inPage)), inPage, "an id is listed twice")
	require.Equal(t, slices.Compact(ids(tested.FindAllSubmatch(code, -1))), inPage)
}
