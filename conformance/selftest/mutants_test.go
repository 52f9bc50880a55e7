package selftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance/selftest"
)

// TestMutantsAreKilled lets each mutant meet the cases that must find it, and a tenth of
// the rest, and prints the matrix. It fails when a mutant survives, when another case than
// those on its list finds it, and when a MUST case has no mutant that it or its group
// alone finds.
func TestMutantsAreKilled(t *testing.T) {
	m, err := selftest.Run(t.Context(), selftest.Options{Seed: 20240229})
	require.NoError(t, err)
	t.Log("\n" + m.Text())
	require.True(t, m.OK())
}
