package selftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// TestPythonMutantsAreKilled proves the wire road: six defects in another language, in a
// process of its own, on a true SQLite file. Where several cases find one, the first of its
// list is the one that its author is told to begin with.
func TestPythonMutantsAreKilled(t *testing.T) {
	for defect, found := range map[string][]string{
		"two-commits":    {"ATM-001", "ATM-002"},
		"no-replay-skip": {"IDM-002", "IDM-008", "IDM-009"},
		"batch-granular": {"IDM-004", "IDM-005"},
		"no-fence":       {"FNC-001", "FNC-004"},
		"toast-as-null":  {"VAL-011", "VAL-012"},
		"redo-wipes-all": {"SNP-003", "SNP-015"},
	} {
		t.Run(defect, func(t *testing.T) {
			t.Setenv("REPLICANT_DEFECT", defect)
			o := managedPython(t, "../badsinks/python/bad.py")
			o.CrashPoints = -1
			o.Run = append(found, "CKP-002", "VAL-006")
			sum, err := conformance.Run(t.Context(), o)
			require.NoError(t, err)
			if begin := map[string]string{
				"two-commits":    "ATM-001 (usually: rows and position in two store transactions)",
				"no-replay-skip": "IDM-002 (usually: upserts without a look at the position)",
				"redo-wipes-all": "SNP-003 (usually: first_for_table empties the table, the stream's rows too)",
			}[defect]; begin != "" {
				require.Contains(t, sum.Begin, begin)
			}
			for _, r := range sum.Results {
				want := conformance.Fail
				if r.ID == "CKP-002" || r.ID == "VAL-006" {
					want = conformance.Pass
				}
				if r.Failure != nil {
					t.Logf("%s: %s: expected %s, found %s", r.ID, r.Failure.What, r.Failure.Expected, r.Failure.Found)
				}
				require.Equal(t, want, r.Verdict, "%s: %s %+v", r.ID, r.Why, r.Failure)
			}
		})
	}
}
