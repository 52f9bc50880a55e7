package incremental

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// TestPausedRunLooksAtThePublicationsOnce: a transaction that may have been delivered waits
// until it is known which tables can be read again. A start amid a pause looks for that, though
// nothing is copied, and tries again where it fails.
func TestPausedRunLooksAtThePublicationsOnce(t *testing.T) {
	for name, listed := range map[string]bool{"before the tables were known": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			state := State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: listed, Paused: true}
			if listed {
				state.Tables = []Table{{Member: keyedMember(1), Status: Copying, Ranges: Everything()}}
			}
			r := New(state, Settings{}, epoch)
			r.Relist()
			job, ok := r.Next()
			require.True(t, ok)
			require.Equal(t, JobList, job.Kind)
			r.Failed(job.ID)
			_, ok = r.Next()
			require.False(t, ok)
			require.Equal(t, epoch.Add(pauseMin), r.Deadline())
			r.At(r.Deadline())
			job, ok = r.Next()
			require.True(t, ok)
			require.Equal(t, JobList, job.Kind)
			require.False(t, r.Knows())
			require.NoError(t, r.Listed([]Member{keyedMember(1), keyedMember(2)}, [16]byte{9}))
			relation := &core.Relation{OID: 3}
			require.True(t, r.Knows())
			require.False(t, r.Unknown([]core.Change{*moves(relation, "1", "2")}))

			r.At(epoch.Add(time.Hour))
			r.Relist()
			_, ok = r.Next()
			require.False(t, ok, "nothing is read")
			require.True(t, r.Deadline().IsZero())
			require.Nil(t, r.Take())
			require.Equal(t, [16]byte{}, r.state.RunID, "it is the run that was paused")
			require.NoError(t, r.Resume(""))
			job, ok = r.Next()
			require.True(t, ok)
			require.Equal(t, JobList, job.Kind)
		})
	}
}
