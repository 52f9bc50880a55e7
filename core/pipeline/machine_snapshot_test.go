package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// besides is a rig with a run whose one table is being copied, and the relation as its
// reader would see it.
func besides(t *testing.T) (*rig, *incremental.Run, *core.Relation) {
	t.Helper()
	m := incremental.Member{
		OID: tableOID, Schema: "public", Name: "t", Key: []string{"id"}, KeyTypes: []uint32{23}, KeyCollations: []string{""}, Identity: core.IdentityDefault,
	}
	run := incremental.New(incremental.State{
		Generation: 1, Kind: incremental.KindInitial, Floor: 1, Listed: true,
		Tables: []incremental.Table{{Member: m, Status: incremental.Copying, Ranges: incremental.Everything()}},
	}, incremental.Settings{}, time.Unix(1_000_000, 0))
	r := newRig(t, func(set *Settings) {
		set.Run, set.Claimed = run, 100
		set.Delivery.MaxDelay = time.Hour // a batch waits
	})
	relation := &core.Relation{
		OID: tableOID, Schema: "public", Name: "t", Identity: core.IdentityDefault,
		Columns: []core.Column{{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true}, {Name: "v", TypeOID: 25, TypeModifier: -1}},
	}
	job, ok := r.m.Job()
	require.True(t, ok)
	require.Equal(t, incremental.JobLook, job.Kind)
	run.Looked(incremental.Look{ID: job.ID, Found: true, Member: m, Relation: relation})
	return r, run, relation
}

// moves streams a key change that leaves the column v out.
func (r *rig) moves(from, to string) {
	old := rawTuple(from, "")
	old.Raw = append(old.Raw[:len(old.Raw)-5], 'n') // a key image has no more than the key
	after := rawTuple(to)
	after.Columns, after.Unchanged, after.Raw = 2, true, append(after.Raw, 'u')
	r.m.Receive(&pgoutput.Message{
		Kind: pgoutput.KindUpdate, RelationOID: tableOID, OldKind: pgoutput.OldKey, Old: old, HasNew: true, New: after,
	})
}

// work is what goes to the sink now, and is answered.
func (r *rig) work() Work {
	r.t.Helper()
	w, ok := r.m.Next()
	require.True(r.t, ok, "no work")
	ack := core.Ack{}
	if w.Unit != nil {
		ack.Checkpoint = w.Unit.Checkpoint
	}
	require.NoError(r.t, r.m.Acked(ack))
	return w
}

// TestNoteGoesAheadOfAReadyStep: a chunk is ready and would carry the repair list. But it goes
// behind the batch that is open, and the list must be durable before that is sent.
func TestNoteGoesAheadOfAReadyStep(t *testing.T) {
	r, run, relation := besides(t)
	job, ok := r.m.Job()
	require.True(t, ok)
	require.Equal(t, incremental.JobChunk, job.Kind)
	require.NoError(t, run.Read(incremental.Read{
		ID: job.ID, Relation: relation, Rows: []core.Tuple{core.PackTuple(core.Text("5"), core.Text("five"))},
		Snapshot: incremental.Snapshot{Min: 9, Max: 9}, High: 130,
	}))
	r.nothing() // the stream has not come as far
	r.begin(110)
	r.moves("1", "2")
	r.commit(110, 120)
	r.begin(130)
	r.insert("3", "v")
	r.commit(130, 140)

	token := func(w Work) *incremental.State {
		t.Helper()
		require.NotNil(t, w.Snapshot)
		state, err := incremental.Decode(w.Snapshot.Token)
		require.NoError(t, err)
		return state
	}
	note := r.work()
	require.NotNil(t, note.Snapshot, "a transaction went before the key that it leaves incomplete was durable")
	require.Nil(t, note.Snapshot.Relation)
	require.Equal(t, []incremental.Key{{"2"}}, token(note).Tables[0].Repair)
	require.Equal(t, incremental.Everything(), token(note).Tables[0].Ranges)

	unit := r.work()
	require.NotNil(t, unit.Unit)
	require.EqualValues(t, 140, unit.Unit.Checkpoint)

	chunk := r.work()
	require.Len(t, chunk.Snapshot.Rows, 1)
	require.EqualValues(t, 140, chunk.Snapshot.Expected)
	require.Empty(t, token(chunk).Tables[0].Ranges)
	require.Equal(t, []incremental.Key{{"2"}}, token(chunk).Tables[0].Repair)
}

// TestRepairWaitsForTheTables: a change that is delivered twice leaves a row without a column,
// and the tables are not known yet. It is not sent before its key is durable; what leaves
// nothing out, or comes for the first time, waits for nothing.
func TestRepairWaitsForTheTables(t *testing.T) {
	m := incremental.Member{
		OID: tableOID, Schema: "public", Name: "t", Key: []string{"id"}, KeyTypes: []uint32{23}, KeyCollations: []string{""}, Identity: core.IdentityDefault,
	}
	for name, heard := range map[string]core.LSN{"again": 1000, "first": 0} {
		t.Run(name, func(t *testing.T) {
			run := incremental.New(incremental.State{Generation: 1, Kind: incremental.KindRepair, Floor: 1, Complete: true}, incremental.Settings{Repairs: true}, time.Unix(1_000_000, 0))
			r := newRig(t, func(set *Settings) { set.Run, set.Mode, set.Heard = run, ModeLib, heard })
			r.transaction(110, 120, "whole")
			require.NotNil(t, r.work().Unit)
			r.begin(130)
			r.moves("1", "2")
			r.commit(130, 140)
			if heard == 0 {
				require.NotNil(t, r.work().Unit)
				return
			}
			r.nothing()
			require.False(t, r.m.WantsInput())
			job, ok := r.m.Job()
			require.True(t, ok)
			require.Equal(t, incremental.JobList, job.Kind)
			require.True(t, job.Partly)
			require.NoError(t, run.Listed([]incremental.Member{m}, [16]byte{}))
			note := r.work()
			require.NotNil(t, note.Snapshot)
			state, err := incremental.Decode(note.Snapshot.Token)
			require.NoError(t, err)
			require.Equal(t, []incremental.Key{{"2"}}, state.Tables[0].Repair)
			require.Empty(t, state.Tables[0].Ranges)
			require.True(t, state.Repairing())
			require.False(t, state.Whole())
			require.EqualValues(t, 140, r.work().Unit.Checkpoint)
		})
	}
}

// TestPausedCopyHoldsNothing: what may come for the second time waits for a look at the tables
// and no longer, with a word meanwhile, in a run that is paused.
func TestPausedCopyHoldsNothing(t *testing.T) {
	run := incremental.New(incremental.State{Generation: 1, Kind: incremental.KindInitial, Floor: 1, Paused: true}, incremental.Settings{}, time.Unix(1_000_000, 0))
	r := newRig(t, func(set *Settings) { set.Run, set.Mode, set.Heard = run, ModeLib, 1000 })
	require.False(t, r.m.waitsForTables())
	r.begin(110)
	r.moves("1", "2")
	r.commit(110, 120)
	r.nothing()
	require.True(t, r.m.waitsForTables())
	job, ok := r.m.Job()
	require.True(t, ok)
	require.Equal(t, incremental.JobList, job.Kind)
	require.NoError(t, run.Listed(nil, [16]byte{}))
	require.EqualValues(t, 120, r.work().Unit.Checkpoint)
	require.False(t, r.m.waitsForTables())
}
