package incremental

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func rowOf(k string) core.Tuple { return core.PackTuple(core.Text(k), core.Text("v")) }

// TestRepairChunkThatIsCut: keys whose rows were read leave the list, of the others it is not
// known, and they are read later; also where a row is printed otherwise than it was told.
func TestRepairChunkThatIsCut(t *testing.T) {
	r, relation := keyed(t, nil)
	table := r.tables[0]
	for i := range 20 {
		table.want(Key{fmt.Sprint(i)}, 0)
	}
	for left := 20; left > 0; {
		job, ok := r.Next()
		require.True(t, ok)
		n := min(3, len(job.Keys))
		var rows []core.Tuple
		for _, k := range job.Keys[:n] {
			rows = append(rows, rowOf(k[0]))
		}
		require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Rows: rows, Snapshot: Snapshot{Max: 9}, High: 1, Cut: n < len(job.Keys)}))
		r.Frontier(1)
		step := r.Take()
		require.Len(t, step.rows, n)
		left -= n
		require.Len(t, stored(t, r, step).Tables[0].Repair, left)
		require.Less(t, len(table.repair), 20)
	}
	table.want(Key{"a"}, 0)
	table.want(Key{"z"}, 0)
	job, ok := r.Next()
	require.True(t, ok)
	require.Len(t, job.Keys, 2)
	require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Rows: []core.Tuple{rowOf("A")}, Snapshot: Snapshot{Max: 9}, High: 1, Cut: true}))
	require.Len(t, stored(t, r, r.Take()).Tables[0].Repair, 2, "neither is known to be there")
	for range 2 {
		job, ok = r.Next()
		require.True(t, ok)
		require.Len(t, job.Keys, 1, "one key has one row: it is not cut")
		require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Rows: []core.Tuple{rowOf("A")}, Snapshot: Snapshot{Max: 9}, High: 1}))
	}
	stored(t, r, r.Take())
	require.Empty(t, stored(t, r, r.Take()).Tables[0].Repair)
}

// TestChunkThatIsTooOld: its window is given up and its range read again, later and with half
// the rows; the limit grows with what a chunk takes, so that the copy comes to its end.
func TestChunkThatIsTooOld(t *testing.T) {
	r, relation := keyed(t, Everything())
	now := epoch
	age := ChunkAgeDefault
	for tries := range 3 {
		job, ok := r.Next()
		require.True(t, ok)
		require.Equal(t, ChunkRowsDefault>>tries, job.Rows)
		require.Equal(t, Range{}, job.Range)
		require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Rows: []core.Tuple{rowOf("1")}, Snapshot: Snapshot{Max: 9}, High: 5}))
		now = now.Add(age)
		r.At(now)
		require.Nil(t, r.Take())
		require.Len(t, r.chunks, 1, "not older than its limit")
		now = now.Add(1)
		r.At(now)
		require.Nil(t, r.Take())
		require.Empty(t, r.chunks)
		_, ok = r.Next()
		require.False(t, ok, "there is a pause")
		require.False(t, r.Deadline().IsZero())
		now = now.Add(pauseMax)
		r.At(now)
		age *= 2
	}
	require.EqualValues(t, 3, r.Counts().Discarded)
	job, _ := r.Next()
	require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Rows: []core.Tuple{rowOf("1")}, Snapshot: Snapshot{Max: 9}, High: 5, Cut: true}))
	const took = 7 * time.Minute
	r.At(now.Add(took))
	r.Frontier(5)
	step := r.Take()
	require.NotNil(t, step, "its limit is 8 minutes by now")
	stored(t, r, step)
	require.Equal(t, 2*took, r.tables[0].patience)
	require.Greater(t, r.tables[0].rowsNext.next, ChunkRowsDefault/8, "chunks become larger again")
	job, _ = r.Next()
	r.At(now.Add(3 * took))
	require.Nil(t, r.Take())
	require.Len(t, r.chunks, 1)
	r.At(now.Add(3*took + 1))
	require.Nil(t, r.Take(), "one that is being read, too")
	require.Empty(t, r.chunks)
	require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Snapshot: Snapshot{Max: 9}, High: 6}), "its rows come to nothing")
	require.Empty(t, r.chunks)
}

// TestWindowsThatCostTooMuch: what the stream does to a table has a cap; above it the windows
// are given up and the next ones are smaller, never larger than what a sink has refused.
func TestWindowsThatCostTooMuch(t *testing.T) {
	r, relation := keyed(t, Everything())
	job, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, ChunkRowsDefault, job.Rows)
	large := core.Text(string(make([]byte, entriesBytesMax/4)))
	for i := range 6 {
		r.Change(&core.Change{Op: core.OpUpdate, Relation: relation, New: core.PackTuple(core.Text(fmt.Sprint(i)), large, core.Value{Kind: core.ValueUnchanged})}, false)
		require.Less(t, r.tables[0].entries.bytes, entriesBytesMax)
	}
	require.Empty(t, r.chunks)
	require.Zero(t, r.tables[0].entries.bytes)
	_, ok = r.Next()
	require.False(t, ok, "there is a pause")
	r.At(epoch.Add(time.Minute))
	job, ok = r.Next()
	require.True(t, ok)
	require.Equal(t, ChunkRowsDefault/2, job.Rows)

	one := newAmount(500)
	one.tooMany(3)
	one.halve()
	require.Equal(t, 1, one.next)
	one.grow()
	require.Equal(t, 1, one.next)
}
