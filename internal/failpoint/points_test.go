package failpoint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListIsWhole(t *testing.T) {
	named := constants(t)
	require.NotEmpty(t, named)
	require.Len(t, declared, len(named))
	seen := map[Point]bool{}
	for _, d := range Declared() {
		require.False(t, seen[d.Point], "%s stands twice", d.Point)
		seen[d.Point] = true
		require.Regexp(t, `^[a-z]+\.[a-z]+$`, string(d.Point))
		require.NotEmpty(t, d.Meaning, d.Point)
		require.NotEmpty(t, d.Rows, d.Point)
	}
	for name, p := range named {
		require.True(t, seen[p], "%s is not declared", name)
	}
}

// matrixRow is the id and the third column of a row of the fault matrix.
var matrixRow = regexp.MustCompile(`(?m)^\| ([A-Z]+[0-9]+) \| [^|]* \| ([^|]*) \|`)

func matrix(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/fault-matrix.md")
	require.NoError(t, err)
	rows := map[string]string{}
	for _, m := range matrixRow.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	require.Greater(t, len(rows), 100)
	return rows
}

func TestRowsExist(t *testing.T) {
	known := matrix(t)
	for _, d := range declared {
		for _, row := range d.Rows {
			require.Contains(t, known, row, "%s serves a row that is not in docs/fault-matrix.md", d.Point)
		}
	}
}

var byPoint = regexp.MustCompile(`\b[PB]\b`)

func TestRowsHavePoints(t *testing.T) {
	served := map[string]bool{}
	for _, d := range declared {
		for _, row := range d.Rows {
			served[row] = true
		}
	}
	for row, hitBy := range matrix(t) {
		if strings.Contains("USLBW", row[:1]) && byPoint.MatchString(hitBy) {
			require.True(t, served[row], "row %s is hit by a failpoint (%s), and none serves it", row, hitBy)
		}
	}
}

func TestNotFired(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	var text strings.Builder
	for _, d := range declared[1:] {
		text.WriteString(string(d.Point) + " 2 4711 kill\n")
	}
	require.NoError(t, os.WriteFile(first, []byte(text.String()), 0o600))

	missing, err := NotFired([]string{first, filepath.Join(dir, "absent")})
	require.NoError(t, err)
	require.Equal(t, []Point{declared[0].Point}, missing)

	require.NoError(t, os.WriteFile(second, []byte(string(declared[0].Point)+" 1 4712 block\n"), 0o600))
	missing, err = NotFired([]string{first, second})
	require.NoError(t, err)
	require.Empty(t, missing)

	all, err := ReadWitness(second)
	require.NoError(t, err)
	require.Equal(t, []Witness{{declared[0].Point, 1, 4712, "block"}}, all)

	none, err := NotFired(nil, "L")
	require.NoError(t, err)
	require.NotEmpty(t, none)
	for _, d := range declared {
		require.Equal(t, slices.Contains(none, d.Point), slices.ContainsFunc(d.Rows, func(row string) bool { return row[0] == 'L' }), d.Point)
	}
}

func TestWitnessIsNotGuessed(t *testing.T) {
	for _, text := range []string{"claim.before 1 2 kill", "claim.before 1 2\n", "nothing.such 1 2 kill\n", "claim.before x 2 kill\n", "claim.before 1 y kill\n"} {
		file := filepath.Join(t.TempDir(), "w")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := ReadWitness(file)
		require.Error(t, err, text)
	}
}
