package sink

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// copyStore is a memStore that takes snapshots.
type copyStore struct {
	*memStore
	kept      map[string]SnapshotRow
	completed int
}

func (s *copyStore) LoadSnapshot(tx StoreTx) (SnapshotRow, error) {
	t := tx.(*memTx)
	return s.kept[t.stream], t.fails("load snapshot")
}

func (s *copyStore) SaveSnapshot(tx StoreTx, row SnapshotRow) error {
	t := tx.(*memTx)
	if t.after == nil {
		t.after = func() { s.kept[t.stream] = row }
	}
	return t.fails("save snapshot")
}

func (s *copyStore) ApplySnapshot(tx StoreTx, unit *core.SnapshotUnit) error {
	t := tx.(*memTx)
	for _, row := range unit.Rows {
		t.rows[string(row.Value(0).Text)] = "copied"
	}
	return t.fails("apply snapshot")
}

func (s *copyStore) CompleteSnapshot(tx StoreTx, _ *core.SnapshotCompleteUnit) error {
	s.completed++
	return tx.(*memTx).fails("complete")
}

type snapshotSink interface {
	core.SnapshotHandler
	core.SnapshotCompleteHandler
	core.SnapshotProgressHandler
	core.BatchHandler
}

func copying(t *testing.T, n uint64) (*copyStore, snapshotSink) {
	t.Helper()
	store := &copyStore{memStore: newMemStore(), kept: map[string]SnapshotRow{}}
	claimed(t, store.memStore, n)
	return store, FromStore("mem", "1", store, StoreOptions{}).(snapshotSink)
}

func TestStoreSinkAdvertisesWhatItsStoreHas(t *testing.T) {
	type messages struct{ MessageStore }
	type schemas struct{ SchemaStore }
	type snapshots struct{ SnapshotStore }
	const always = "CHECKPOINT,TRANSACTION,BATCH,LARGE_TRANSACTION"
	const three = ",SNAPSHOT,SNAPSHOT_COMPLETE,SNAPSHOT_PROGRESS"
	for want, store := range map[string]Store{
		always:                                    newMemStore(),
		always + ",MESSAGE":                       messages{},
		always + ",SCHEMA_CHANGE":                 schemas{},
		always + three:                            snapshots{},
		always + ",MESSAGE" + three:               struct{ mixMessageSnapshot }{},
		always + ",SCHEMA_CHANGE" + three:         struct{ mixSchemaSnapshot }{},
		always + ",MESSAGE,SCHEMA_CHANGE":         struct{ mixMessageSchema }{},
		always + ",MESSAGE,SCHEMA_CHANGE" + three: struct{ mixAll }{},
	} {
		made := FromStore("mem", "1", store, StoreOptions{})
		require.Equal(t, want, implemented(made).String())
		about, err := made.Capabilities(t.Context())
		require.NoError(t, err)
		about.Set &^= core.NewCapabilitySet(core.CapResumeState)
		require.Equal(t, want, about.Set.String())
	}
}

type (
	mixMessageSnapshot interface {
		MessageStore
		SnapshotStore
	}
	mixSchemaSnapshot interface {
		SchemaStore
		SnapshotStore
	}
	mixMessageSchema interface {
		MessageStore
		SchemaStore
	}
	mixAll interface {
		MessageStore
		SchemaStore
		SnapshotStore
	}
)

func unitOf(generation uint64, ids ...string) *core.SnapshotUnit {
	u := &core.SnapshotUnit{Call: epoch(1), Generation: generation, Relation: items}
	for _, id := range ids {
		u.Rows = append(u.Rows, core.PackTuple(core.Text(id)))
	}
	return u
}

// The token is stored as it is with the rows, and a unit without one keeps it. The
// generation never falls.
func TestStoreSinkKeepsTokenAndGeneration(t *testing.T) {
	ctx := context.Background()
	store, s := copying(t, 1)
	ask := core.SnapshotProgressRequest{StreamID: "s", Source: home}
	token, err := s.SnapshotProgress(ctx, ask)
	require.NoError(t, err)
	require.Nil(t, token)
	unit := unitOf(2, "1")
	unit.Token = []byte{}
	_, err = s.HandleSnapshot(ctx, unit)
	require.NoError(t, err)
	_, err = s.HandleSnapshot(ctx, unitOf(1, "2"))
	require.NoError(t, err)
	token, err = s.SnapshotProgress(ctx, ask)
	require.NoError(t, err)
	require.Equal(t, []byte{}, token)
	require.Equal(t, uint64(2), store.kept["s"].Generation)
	rows, streams := store.snapshot()
	require.Equal(t, map[string]string{"1": "copied", "2": "copied"}, rows)
	require.Zero(t, streams["s"].Position, "a snapshot unit moves no position")

	foreign := ask
	foreign.Source.SystemIdentifier = "other"
	_, err = s.SnapshotProgress(ctx, foreign)
	requireReason(t, core.ReasonSourceMismatch, err, "another source")
	store.failAt = "load snapshot"
	_, err = s.SnapshotProgress(ctx, ask)
	require.ErrorIs(t, err, errStore, "what cannot be read is no absence")
}

// Epoch and gap are tested as in every writing call, inside the store transaction.
func TestStoreSinkGuardsSnapshots(t *testing.T) {
	ctx := context.Background()
	store, s := copying(t, 2)
	for reason, spoil := range map[core.Reason]func(*core.Call, *core.LSN){
		core.ReasonFenced:           func(c *core.Call, _ *core.LSN) { *c = epoch(1) },
		core.ReasonCheckpointBehind: func(_ *core.Call, expected *core.LSN) { *expected = 5 },
	} {
		unit, done := unitOf(1, "1"), &core.SnapshotCompleteUnit{Call: epoch(2), Checkpoint: 10, Generation: 1}
		unit.Call = epoch(2)
		spoil(&unit.Call, &unit.Expected)
		spoil(&done.Call, &done.Expected)
		_, err := s.HandleSnapshot(ctx, unit)
		requireReason(t, reason, err, "HandleSnapshot")
		_, err = s.HandleSnapshotComplete(ctx, done)
		requireReason(t, reason, err, "HandleSnapshotComplete")
	}
	rows, streams := store.snapshot()
	require.Empty(t, rows)
	require.Zero(t, streams["s"].Position)
	require.Empty(t, store.kept)
	unit := unitOf(1, "1")
	unit.Call.Owner = core.OwnerSidecar // whose fence is in memory
	_, err := s.HandleSnapshot(ctx, unit)
	require.NoError(t, err)
}

// Whatever step fails, neither rows nor token are there.
func TestStoreSinkLeavesNothingOfASnapshotBehind(t *testing.T) {
	ctx := context.Background()
	for _, step := range []string{"begin", "load", "load snapshot", "save snapshot", "apply snapshot", "commit"} {
		store, s := copying(t, 1)
		store.failAt = step
		unit := unitOf(1, "1")
		unit.Token = []byte("t")
		_, err := s.HandleSnapshot(ctx, unit)
		require.ErrorIs(t, err, errStore, step)
		rows, _ := store.snapshot()
		require.Empty(t, rows, step)
		require.Empty(t, store.kept, step)
	}
	store, s := copying(t, 1)
	done := &core.SnapshotCompleteUnit{Call: epoch(1), Checkpoint: 10, Generation: 1}
	store.failAt = "complete"
	_, err := s.HandleSnapshotComplete(ctx, done)
	require.ErrorIs(t, err, errStore)
	_, streams := store.snapshot()
	require.Zero(t, streams["s"].Position)
	store.failAt = ""
	for range 2 {
		ack, err := s.HandleSnapshotComplete(ctx, done)
		require.NoError(t, err)
		require.Equal(t, core.LSN(10), ack.Checkpoint)
	}
	_, streams = store.snapshot()
	require.Equal(t, core.LSN(10), streams["s"].Position)
	require.Equal(t, 2, store.completed, "the failed attempt and the one that held")
}
