package incremental

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// TestRepairChunkThatIsTooBig: half as many keys each time, down to one; one row that is too
// big cannot be made smaller.
func TestRepairChunkThatIsTooBig(t *testing.T) {
	r, relation := keyed(t, nil)
	table := r.tables[0]
	table.status, table.ranges = Copying, nil
	for i := range 40 {
		table.want(Key{fmt.Sprint(i)}, 0)
	}
	read := func() *Step {
		job, ok := r.Next()
		require.True(t, ok)
		require.NotNil(t, job.Keys)
		var rows []core.Tuple
		for _, k := range job.Keys {
			rows = append(rows, core.PackTuple(core.Text(k[0]), core.Text("v")))
		}
		require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Rows: rows, Snapshot: Snapshot{Max: 9}, High: 1}))
		r.Frontier(1)
		step := r.Take()
		require.NotNil(t, step)
		require.Len(t, step.rows, len(job.Keys))
		return step
	}
	for _, want := range []int{40, 20, 10, 5, 2} {
		step := read()
		require.Len(t, step.rows, want)
		instead := r.TooBig(step)
		require.NotNil(t, instead)
		require.Len(t, stored(t, r, instead).Tables[0].Repair, 40, "they are read again")
	}
	step := read()
	require.Len(t, step.rows, 1)
	require.Nil(t, r.TooBig(step))
}
