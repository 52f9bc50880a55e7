package incremental

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFailedListIsAskedAgain: at the begin of a run and later, paced.
func TestFailedListIsAskedAgain(t *testing.T) {
	m := Member{OID: 7, Schema: "s", Name: "t", Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 1"}}
	for name, state := range map[string]State{
		"first": {Generation: 1, Kind: KindInitial, Floor: 1},
		"later": {Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Complete: true, Tables: []Table{{Member: m, Status: Done}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(state, Settings{}, epoch)
			r.Relist()
			now := epoch
			for range 3 {
				job, ok := r.Next()
				require.True(t, ok)
				require.Equal(t, JobList, job.Kind)
				_, ok = r.Next()
				require.False(t, ok, "one at a time")
				r.Failed(job.ID)
				_, ok = r.Next()
				require.False(t, ok, "not at once")
				now = r.Deadline()
				require.True(t, now.After(epoch), "and somebody wakes")
				r.At(now)
			}
			job, ok := r.Next()
			require.True(t, ok)
			require.NoError(t, r.Listed([]Member{m}, [16]byte{}))
			require.Len(t, r.tables, 1)
			r.Failed(job.ID) // it is over
			r.At(now.Add(time.Hour))
			job, _ = r.Next()
			require.NotEqual(t, JobList, job.Kind)
		})
	}
}
