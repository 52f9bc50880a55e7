package conformance

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyWhatTheSinkDidWrongIsItsFault: exit code 3 says that the sink breaks the contract, so
// a probe that fails, or the suite itself, must not give it.
func TestOnlyWhatTheSinkDidWrongIsItsFault(t *testing.T) {
	pass, fail := Result{Verdict: Pass}, Result{Verdict: Fail}
	broken, fault := Result{Verdict: Broken}, Result{Verdict: Broken, Fault: true}
	for name, c := range map[string]struct {
		results []Result
		exit    int
	}{
		"nothing":                {nil, ExitPass},
		"passes":                 {[]Result{pass, {Verdict: Warn}, {Verdict: Skip}}, ExitPass},
		"announced":              {[]Result{{Verdict: Fail, Known: true}}, ExitPass},
		"a failure":              {[]Result{pass, fail}, ExitFailures},
		"only broken":            {[]Result{pass, broken, broken}, ExitHarness},
		"the suite":              {[]Result{broken, fault, broken}, ExitInternal},
		"a failure and the rest": {[]Result{fault, broken, fail}, ExitFailures},
	} {
		require.Equal(t, c.exit, exitOf(c.results), name)
	}
}

// TestAPanicOfTheSuiteIsNoFailure: it is told as what it is.
func TestAPanicOfTheSuiteIsNoFailure(t *testing.T) {
	s := newSession(Options{Target: NewAttached("unix:" + t.TempDir() + "/none"), Patience: 1, Seed: 1})
	r := Result{}
	s.o.Target = nil // what no sink can do
	require.Equal(t, Broken, s.run(t.Context(), &Case{ID: "AAA-001"}, &r))
	require.True(t, r.Fault)
	require.Contains(t, r.Why, "a fault of the suite")
}

// TestWhatMayBeNotPossible: docs/conformance.md names the two cases and the profile that a
// conformant sink may leave out for want of means.
func TestWhatMayBeNotPossible(t *testing.T) {
	s := newSession(Options{Target: NewAttached("unix:" + t.TempDir() + "/none")})
	text, err := os.ReadFile("../docs/conformance.md")
	require.NoError(t, err)
	for _, c := range Cases() {
		if c.Level != Must || c.LeftOut != "" {
			continue
		}
		sum := &Summary{Results: make([]Result, len(Cases()))}
		sum.Results[0] = Result{ID: c.ID, Level: c.Level, Profile: c.Profile, Verdict: Skip, Skip: NotPossible}
		lacks := s.missing(sum, true)
		if optionalMeans[c.ID] {
			require.Contains(t, string(text), c.ID)
		}
		require.Equal(t, optionalMeans[c.ID] || c.Profile == TLS, len(lacks) == 0, c.ID)
	}
}
