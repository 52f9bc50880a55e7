package selftest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheMatrixFitsATerminal: a line is at most 100 columns wide, whatever was found.
func TestTheMatrixFitsATerminal(t *testing.T) {
	var found []string
	for n := range 40 {
		found = append(found, fmt.Sprintf("SNP-%03d", n+1))
	}
	found = append(found, "INC-001")
	m := Matrix{Rows: []Row{
		{Mutant: "reset-all-is-rows", Title: strings.Repeat("word ", 30), Found: found, Silent: found, Surprising: found},
		{Mutant: "gone", Title: "ends", Error: strings.Repeat("no answer ", 20)},
	}, Unproven: found}
	for line := range strings.Lines(m.Text()) {
		require.LessOrEqual(t, len(line), columns+1, line)
	}
	require.Contains(t, m.Text(), "NOT found by SNP-001,002,003")
	require.Contains(t, m.Text(), "SURVIVED  gone")
}
