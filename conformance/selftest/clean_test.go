package selftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/badsinks"
)

func TestCleanSinksPass(t *testing.T) {
	for _, v := range badsinks.Variants() {
		t.Run(v.Name, func(t *testing.T) {
			sink, err := badsinks.New(v, "")
			require.NoError(t, err)
			defer sink.Close()
			sum, err := conformance.Run(t.Context(), conformance.Options{
				Target: sink, Probe: sink, Crashers: []conformance.Crasher{sink}, Effort: conformance.Quick, CrashPoints: -1, Seed: 7,
				ShowValues: true,
			})
			require.NoError(t, err)
			for _, r := range sum.Results {
				switch r.Verdict {
				case conformance.Pass, conformance.Skip:
				default:
					t.Errorf("%s %s: %s %+v", r.ID, r.Verdict, r.Why, r.Failure)
				}
				t.Logf("%s %s %s %s %v %v", r.ID, r.Verdict, r.Skip, r.Why, r.Duration, r.Notes)
			}
		})
	}
}
