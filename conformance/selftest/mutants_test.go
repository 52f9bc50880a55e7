package selftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance/badsinks"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/selftest"
)

// racedShare is how many of the mutants meet the race detector: one in so many. It looks at
// the suite and the reference sink, which are the same code for each of them.
const racedShare = 8

// TestMutantsAreKilled lets each mutant meet the cases that must find it, and a tenth of
// the rest, and prints the matrix. It fails when a mutant survives, when another case than
// those on its list finds it, and when a MUST case has no mutant that it or its group
// alone finds. Under the race detector it is a share of them: the whole is what
// "make test-conformance" runs.
func TestMutantsAreKilled(t *testing.T) {
	o := selftest.Options{Seed: 20240229, Clean: true}
	for i, m := range badsinks.Mutants() {
		if raced && i%racedShare == 0 {
			o.Only = append(o.Only, string(m.Defect))
		}
	}
	m, err := selftest.Run(t.Context(), o)
	require.NoError(t, err)
	t.Log("\n" + m.Text())
	require.True(t, m.OK())
}
