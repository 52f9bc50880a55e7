package incremental

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failedOnce is a run whose only table has waited for its writers, and had a chunk that failed
// by what fail does.
func failedOnce(t *testing.T, fail func(*Run, Job)) (*Run, Job) {
	t.Helper()
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{
		{Member: lookedAt, Status: Copying, Ranges: Everything()},
	}}, Settings{}, epoch)
	look := due(t, r, JobLook)
	r.Looked(Look{ID: look.ID, Found: true, Member: lookedAt, Writers: []Writer{{XID: 5}}})
	r.Shown(due(t, r, JobSnapshot).ID, Snapshot{Min: 6, Max: 6}, 0)
	fail(r, due(t, r, JobChunk))
	r.At(epoch.Add(time.Hour))
	return r, due(t, r, JobLook)
}

var lookedAt = Member{OID: 7, Schema: "s", Name: "t", Key: []string{"k"}, KeyTypes: []uint32{25}, KeyCollations: []string{"100 1"}}

func due(t *testing.T, r *Run, kind JobKind) Job {
	t.Helper()
	job, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, kind, job.Kind)
	return job
}

func failed(r *Run, chunk Job) { r.Failed(chunk.ID) }

// TestFailedChunkWaitsForNoWriter: behind a chunk that failed the table is looked at again.
// Who writes it then is streamed, if it is the table that it was, and the windows are of the
// same epoch.
func TestFailedChunkWaitsForNoWriter(t *testing.T) {
	writers := []Writer{{XID: 9}}
	t.Run("the same", func(t *testing.T) {
		r, look := failedOnce(t, failed)
		for range 2 {
			r.Looked(Look{ID: look.ID, Found: true, Member: lookedAt, Writers: writers})
			failed(r, due(t, r, JobChunk))
			r.At(r.now.Add(time.Hour))
			look = due(t, r, JobLook)
		}
	})
	t.Run("another key", func(t *testing.T) {
		r, look := failedOnce(t, failed)
		other := lookedAt
		other.KeyCollations = []string{"100 2"}
		r.Looked(Look{ID: look.ID, Found: true, Member: other, Writers: writers})
		r.At(r.now.Add(time.Hour))
		due(t, r, JobSnapshot)
	})
	t.Run("another epoch", func(t *testing.T) {
		r, _ := failedOnce(t, failed)
		r.again()
		r.Looked(Look{ID: due(t, r, JobLook).ID, Found: true, Member: lookedAt, Writers: writers})
		r.At(r.now.Add(time.Hour))
		due(t, r, JobSnapshot)
	})
}

// TestAwayAmidItsCopy: a table that a chunk did not find in the publications begins anew, also
// if it is back by the next look: of what was done to it meanwhile the stream tells nothing.
func TestAwayAmidItsCopy(t *testing.T) {
	r, look := failedOnce(t, func(r *Run, chunk Job) { require.NoError(t, r.Read(Read{ID: chunk.ID, Away: true})) })
	r.Looked(Look{ID: look.ID, Found: true, Member: lookedAt})
	require.Equal(t, Gone, r.tables[0].status)
	r.Relist()
	due(t, r, JobList)
	require.NoError(t, r.Listed([]Member{lookedAt}, [16]byte{}))
	require.Equal(t, Pending, r.tables[0].status)
	r.Looked(Look{ID: due(t, r, JobLook).ID, Found: true, Member: lookedAt, Writers: []Writer{{XID: 9}}})
	r.At(r.now.Add(time.Hour))
	r.Shown(due(t, r, JobSnapshot).ID, Snapshot{Min: 10, Max: 10}, 0)
	step := r.Take()
	require.NotNil(t, step)
	require.True(t, step.Clears())
	require.True(t, r.Unit(step).First)
}
