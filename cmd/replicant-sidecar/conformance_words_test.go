package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPatternThatSelectsNothingIsAllThatIsWrong: nothing was started, so nothing is said of
// what listens where.
func TestAPatternThatSelectsNothingIsAllThatIsWrong(t *testing.T) {
	cmd := newConformance()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"--run", "ZZZ-*", "--sink", "unix:" + t.TempDir() + "/none"})
	var ended *exitError
	require.ErrorAs(t, cmd.Execute(), &ended)
	require.Equal(t, 2, ended.code)
	require.Contains(t, out.String(), "no case has such an id or profile")
	require.NotContains(t, out.String(), "listens")
}

func TestTheListHasAHeader(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, listCases(&out, false))
	require.Regexp(t, `^case +level +profile +needs +what is done\n[A-Z]{3}-001 `, out.String())
}

// TestExplainKnowsACaseFromAHalt: both commands explain, and one is easily taken for the other.
func TestExplainKnowsACaseFromAHalt(t *testing.T) {
	require.ErrorContains(t, explain(&bytes.Buffer{}, "idm-004"), "`replicant-sidecar conformance explain IDM-004`")
	err := explain(&bytes.Buffer{}, "no-such")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "conformance explain")
}
