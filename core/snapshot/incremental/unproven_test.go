package incremental

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// busy streams more transactions of other tables than are remembered, from an xid on.
func busy(r *Run, from uint32) {
	for i := range uint32(receivedMax + 1) {
		r.Committed(from+i, core.LSN(1000+i))
	}
}

// TestCopyOnABusySource: the copy of a table without a key takes longer than the stream needs
// for as many transactions as are remembered. Its snapshot is known, and shows all that was
// received before it began: so it goes on. Windows of other tables are given up.
func TestCopyOnABusySource(t *testing.T) {
	unkeyed := Member{OID: 8, Schema: "s", Name: "u", Identity: core.IdentityNothing}
	relation := &core.Relation{OID: 8, Schema: "s", Name: "u", Identity: core.IdentityNothing, Columns: []core.Column{{Name: "v"}}}
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{
		{Member: unkeyed, Status: Pending}, {Member: keyedMember(7), Status: Copying, Ranges: Everything()},
	}}, Settings{}, epoch)
	next := func(kind JobKind) Job {
		t.Helper()
		job, ok := r.Next()
		require.True(t, ok)
		require.Equal(t, kind, job.Kind)
		return job
	}
	look := func(m Member) { r.Looked(Look{ID: next(JobLook).ID, Found: true, Member: m, Relation: relation}) }
	look(unkeyed)
	look(keyedMember(7))
	early := next(JobCopy)
	window := next(JobChunk)
	busy(r, 100)
	require.False(t, r.Copies(early.ID), "what its snapshot will show is not known")
	r.At(epoch.Add(pauseMax))
	look(unkeyed)
	look(keyedMember(7))
	job := next(JobCopy)
	r.Copying(job.ID, Snapshot{Min: 1e6, Max: 1e6}, 100, relation)
	again := next(JobChunk)
	require.NotEqual(t, window.ID, again.ID)

	busy(r, 2_000_000)
	busy(r, 3_000_000)
	require.True(t, r.Copies(job.ID))
	require.Nil(t, r.chunk(again.ID), "its window is not to be trusted")
	require.Equal(t, keyedMember(7), next(JobLook).Table, "that table waits for its writers again, and the one that is copied does not")
	require.True(t, r.Pull())
	r.Piece(job.ID, nil, true)
	state := stored(t, r, r.Take())
	require.Equal(t, Done, state.Tables[0].Status)
	require.EqualValues(t, 1e6, state.Tables[0].Shown.Max)

	// An operator's word ends it all the same.
	r = New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{{Member: unkeyed, Status: Pending}}}, Settings{}, epoch)
	look(unkeyed)
	job = next(JobCopy)
	r.Copying(job.ID, Snapshot{Min: 1e6, Max: 1e6}, 100, relation)
	require.NoError(t, r.Pause(""))
	require.False(t, r.Copies(job.ID))
}
