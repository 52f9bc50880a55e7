package sink

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

var items = &core.Relation{OID: 1, Schema: "public", Name: "items", Identity: core.IdentityDefault, Columns: []core.Column{{Name: "id"}}}

func insertOf(ids ...int) []core.Change {
	var changes []core.Change
	for _, id := range ids {
		changes = append(changes, core.Change{Op: core.OpInsert, Relation: items, New: core.PackTuple(core.Text(strconv.Itoa(id)))})
	}
	return changes
}

// epoch is the call of a sidecar that claimed that epoch.
func epoch(n uint64) core.Call { return core.Call{StreamID: "s", Owner: core.OwnerSink, Epoch: n} }

func claimed(t *testing.T, store *memStore, n uint64) *storeSink {
	t.Helper()
	s := FromStore("mem", "1", store, StoreOptions{}).(*storeSink)
	_, err := s.Checkpoint(context.Background(), core.CheckpointRequest{StreamID: "s", Source: home, Claim: &core.Claim{Epoch: n, SenderID: alice}})
	require.NoError(t, err)
	return s
}

func TestStoreSinkKeepsRowsAndPositionTogether(t *testing.T) {
	ctx := context.Background()
	store := newMemStore()
	s := FromStore("mem", "1", store, StoreOptions{}).(*storeSink)
	read := core.CheckpointRequest{StreamID: "s", Source: home}
	checkpoint, err := s.Checkpoint(ctx, read)
	require.NoError(t, err)
	require.Equal(t, core.Checkpoint{}, checkpoint)
	_, streams := store.snapshot()
	require.Empty(t, streams, "a read created a row")

	s = claimed(t, store, 1)
	first, err := s.Checkpoint(ctx, read)
	require.NoError(t, err)
	require.Len(t, first.Lineage, 16)
	unit := &core.Unit{Call: epoch(1), Checkpoint: 20, ResumeState: []byte("r"), Transactions: []core.Transaction{{CommitLSN: 10, EndLSN: 20, Changes: insertOf(1, 2)}}}
	ack, err := s.HandleTransaction(ctx, unit)
	require.NoError(t, err)
	require.Equal(t, core.LSN(20), ack.Checkpoint)
	require.Equal(t, uint64(2), *ack.Counts.Inserted)
	require.Equal(t, uint64(0), *ack.Counts.ReplayedTransactions)

	began := store.began
	ack, err = s.HandleBatch(ctx, unit)
	require.NoError(t, err)
	require.Equal(t, core.LSN(20), ack.Checkpoint)
	require.Equal(t, uint64(1), *ack.Counts.ReplayedTransactions)
	require.Equal(t, began+1, store.began)
	rows, _ := store.snapshot()
	require.Equal(t, map[string]string{"1": "10/0", "2": "10/1"}, rows)

	again, err := s.Checkpoint(ctx, read)
	require.NoError(t, err)
	require.Equal(t, core.Checkpoint{Position: 20, Epoch: 1, Lineage: first.Lineage, ResumeState: []byte("r")}, again)
}

// Whatever step fails, nothing of the unit is there, and the unit goes in later.
func TestStoreSinkLeavesNothingBehindAFailure(t *testing.T) {
	for _, step := range []string{"begin", "load", "apply", "save", "commit"} {
		store := newMemStore()
		s := claimed(t, store, 1)
		unit := &core.Unit{Call: epoch(1), Checkpoint: 20, Transactions: []core.Transaction{{CommitLSN: 10, EndLSN: 20, Changes: insertOf(1)}}}
		store.failAt = step
		_, err := s.HandleBatch(context.Background(), unit)
		require.ErrorIs(t, err, errStore, step)
		rows, streams := store.snapshot()
		require.Empty(t, rows, step)
		require.Zero(t, streams["s"].Position, step)
		store.failAt = ""
		_, err = s.HandleBatch(context.Background(), unit)
		require.NoError(t, err, step)
		require.Empty(t, store.lock, "a row lock was left behind by "+step)
	}
}

func TestStoreSinkFences(t *testing.T) {
	ctx := context.Background()
	store := newMemStore()
	s := claimed(t, store, 1)
	claimed(t, store, 2)
	unit := &core.Unit{Call: epoch(1), Checkpoint: 20, Transactions: []core.Transaction{{CommitLSN: 10, EndLSN: 20, Changes: insertOf(1)}}}
	_, err := s.HandleBatch(ctx, unit)
	requireReason(t, core.ReasonFenced, err, "old epoch")
	unit.Call = epoch(3)
	_, err = s.HandleBatch(ctx, unit)
	requireReason(t, core.ReasonCheckpointBehind, err, "epoch not claimed here")
	unit.Call, unit.Expected = epoch(2), 5
	_, err = s.HandleBatch(ctx, unit)
	requireReason(t, core.ReasonCheckpointBehind, err, "gap")
	rows, _ := store.snapshot()
	require.Empty(t, rows)
	// Where the sidecar keeps the checkpoint, positions mean nothing here.
	unit.Call.Owner = core.OwnerSidecar
	ack, err := s.HandleBatch(ctx, unit)
	require.NoError(t, err)
	require.Equal(t, core.LSN(20), ack.Checkpoint)
	rows, streams := store.snapshot()
	require.Len(t, rows, 1)
	require.Zero(t, streams["s"].Position)
}

// pieces is a large transaction from memory.
type pieces struct {
	begin  core.LargeBegin
	frames []core.LargeFrame
	err    error
	before func(frame int)
}

func (p *pieces) Begin() core.LargeBegin { return p.begin }

func (p *pieces) Next(context.Context) (core.LargeFrame, error) {
	if p.before != nil {
		p.before(len(p.frames))
	}
	if len(p.frames) == 0 {
		if p.err != nil {
			return core.LargeFrame{}, p.err
		}
		return core.LargeFrame{}, io.EOF
	}
	next := p.frames[0]
	p.frames = p.frames[1:]
	return next, nil
}

func large(end core.LSN) *pieces {
	return &pieces{
		begin: core.LargeBegin{Call: epoch(1), CommitLSN: end - 5},
		frames: []core.LargeFrame{
			{Changes: insertOf(1, 2)}, {Changes: insertOf(3), FirstChangeIndex: 2},
			{Commit: &core.LargeCommit{EndLSN: end, Checkpoint: end, ChangeCount: 3, ResumeState: []byte("r")}},
		},
	}
}

func TestStoreSinkTakesLargeTransactions(t *testing.T) {
	ctx := context.Background()
	store := newMemStore()
	s := claimed(t, store, 1)
	transaction := large(30)
	transaction.before = func(int) {
		rows, _ := store.snapshot()
		require.Empty(t, rows, "visible before the commit frame")
		require.Empty(t, store.lock, "the stream's row is locked while frames are waited for")
	}
	ack, err := s.HandleLargeTransaction(ctx, transaction)
	require.NoError(t, err)
	require.Equal(t, core.LSN(30), ack.Checkpoint)
	require.Equal(t, uint64(3), *ack.Counts.Inserted)
	rows, streams := store.snapshot()
	require.Equal(t, map[string]string{"1": "25/0", "2": "25/1", "3": "25/2"}, rows)
	require.Equal(t, core.LSN(30), streams["s"].Position)
	require.Equal(t, "r", string(streams["s"].ResumeState))

	ack, err = s.HandleLargeTransaction(ctx, large(30))
	require.NoError(t, err)
	require.Equal(t, core.LSN(30), ack.Checkpoint)
	require.Equal(t, uint64(1), *ack.Counts.ReplayedTransactions)
	require.Nil(t, ack.Counts.Inserted, "what was dropped was not done")
}

func TestStoreSinkRollsLargeTransactionsBack(t *testing.T) {
	ctx := context.Background()
	broken := errors.New("stream broke")
	cases := map[string]struct {
		spoil  func(*memStore, *pieces)
		reason core.Reason
	}{
		"no commit frame":        {func(_ *memStore, p *pieces) { p.frames, p.err = p.frames[:2], broken }, ""},
		"gap at begin":           {func(_ *memStore, p *pieces) { p.begin.Expected = 7 }, core.ReasonCheckpointBehind},
		"old epoch at begin":     {func(_ *memStore, p *pieces) { p.begin.Call = epoch(0) }, core.ReasonFenced},
		"claimed while arriving": {func(s *memStore, p *pieces) { p.before = claimAt(s, 1) }, core.ReasonFenced},
		"store fails":            {func(s *memStore, p *pieces) { p.before = func(n int) { s.failAt = "apply" } }, ""},
		"a schema change":        {func(_ *memStore, p *pieces) { p.frames[1] = core.LargeFrame{SchemaChange: &core.SchemaChange{}} }, core.ReasonSchemaDeclined},
	}
	for name, c := range cases {
		store := newMemStore()
		s := claimed(t, store, 1)
		transaction := large(30)
		c.spoil(store, transaction)
		_, err := s.HandleLargeTransaction(ctx, transaction)
		require.Error(t, err, name)
		if c.reason != "" {
			requireReason(t, c.reason, err, name)
		}
		rows, streams := store.snapshot()
		require.Empty(t, rows, name)
		require.Zero(t, streams["s"].Position, name)
		require.Empty(t, store.lock, name)
	}
}

// claimAt lets another sidecar claim the stream before the frame with n left.
func claimAt(store *memStore, n int) func(int) {
	return func(left int) {
		if left == n {
			s := FromStore("mem", "1", store, StoreOptions{}).(*storeSink)
			_, _ = s.Checkpoint(context.Background(), core.CheckpointRequest{StreamID: "s", Source: home, Claim: &core.Claim{Epoch: 2, SenderID: bob}})
		}
	}
}

// talkative is a store that takes messages and schema changes too.
type talkative struct {
	*memStore
	messages []string
	shapes   []string
}

func (s *talkative) ApplyMessage(_ StoreTx, m *core.Message) error {
	s.messages = append(s.messages, string(m.Prefix))
	return nil
}

func (s *talkative) ApplySchemaChange(_ StoreTx, c *core.SchemaChange) error {
	s.shapes = append(s.shapes, c.What)
	return nil
}

func TestStoreSinkWithMessagesAndSchemas(t *testing.T) {
	ctx := context.Background()
	store := &talkative{memStore: newMemStore()}
	s := FromStore("mem", "1", store, StoreOptions{Kind: core.AppendLog})
	want := implemented(s) | core.NewCapabilitySet(core.CapResumeState)
	about, err := s.Capabilities(ctx)
	require.NoError(t, err)
	require.Equal(t, want, about.Set)
	require.Equal(t, "CHECKPOINT,TRANSACTION,BATCH,LARGE_TRANSACTION,MESSAGE,SCHEMA_CHANGE,RESUME_STATE", about.Set.String())
	claimed(t, store.memStore, 1)

	message := &core.MessageUnit{Call: epoch(1), Checkpoint: 15, Message: core.Message{LSN: 15, Prefix: []byte("hello")}}
	for range 2 { // the second is a replay
		ack, err := s.(core.MessageHandler).HandleMessage(ctx, message)
		require.NoError(t, err)
		require.Equal(t, core.LSN(15), ack.Checkpoint)
	}
	require.Equal(t, []string{"hello"}, store.messages)
	message.Expected, message.Checkpoint = 99, 100
	_, err = s.(core.MessageHandler).HandleMessage(ctx, message)
	requireReason(t, core.ReasonCheckpointBehind, err, "gap")

	shape := &core.SchemaChangeUnit{Call: epoch(1), Expected: 15, Change: core.SchemaChange{What: "columns_added"}}
	require.NoError(t, s.(core.SchemaChangeHandler).HandleSchemaChange(ctx, shape))
	shape.Call = epoch(0)
	requireReason(t, core.ReasonFenced, s.(core.SchemaChangeHandler).HandleSchemaChange(ctx, shape), "old epoch")
	require.Equal(t, []string{"columns_added"}, store.shapes)
	_, streams := store.snapshot()
	require.Equal(t, core.LSN(15), streams["s"].Position)

	transaction := large(30)
	transaction.frames[1] = core.LargeFrame{SchemaChange: &core.SchemaChange{What: "type_changed"}}
	_, err = s.(core.LargeTransactionHandler).HandleLargeTransaction(ctx, transaction)
	require.NoError(t, err)
	require.Equal(t, []string{"columns_added", "type_changed"}, store.shapes)

	plain := FromStore("mem", "1", newMemStore(), StoreOptions{})
	require.False(t, implemented(plain).Has(core.CapMessage) || implemented(plain).Has(core.CapSchemaChange))
}
