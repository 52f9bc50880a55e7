package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// copier is a recorder that takes snapshots too.
type copier struct {
	recorder
	snapshots   []core.SnapshotUnit
	completions []core.SnapshotCompleteUnit
	questions   []core.SnapshotProgressRequest
	token       []byte
}

func (c *copier) HandleSnapshot(_ context.Context, u *core.SnapshotUnit) (core.Counts, error) {
	if err := c.note("HandleSnapshot"); err != nil {
		return core.Counts{}, err
	}
	copied := *u
	copied.Rows = nil
	for _, row := range u.Rows {
		copied.Rows = append(copied.Rows, row.Clone())
	}
	copied.Token = append([]byte{}, u.Token...)
	c.snapshots = append(c.snapshots, copied)
	rows := uint64(len(u.Rows))
	return core.Counts{Inserted: &rows}, nil
}

func (c *copier) HandleSnapshotComplete(_ context.Context, u *core.SnapshotCompleteUnit) (core.Ack, error) {
	if err := c.note("HandleSnapshotComplete"); err != nil {
		return core.Ack{}, err
	}
	c.completions = append(c.completions, *u)
	return core.Ack{Checkpoint: u.Checkpoint}, nil
}

func (c *copier) SnapshotProgress(_ context.Context, q core.SnapshotProgressRequest) ([]byte, error) {
	if err := c.note("SnapshotProgress"); err != nil {
		return nil, err
	}
	c.questions = append(c.questions, q)
	return c.token, nil
}

func snapshotUnit() *core.SnapshotUnit {
	return &core.SnapshotUnit{
		Call: call(), Expected: 77, Relation: people(), LSN: 90, RunID: [16]byte{1, 2}, Generation: 3,
		First: true, Reset: core.ResetAll, Last: true, Sweep: true, Token: []byte("token\x00"), BackfillComplete: true,
		Rows: []core.Tuple{core.PackTuple(core.Text("1"), core.Null()), core.PackTuple(core.Text("2"), core.Text(""))},
	}
}

func TestSnapshotCallsOnTheWire(t *testing.T) {
	sink := &copier{}
	remote := serveSink(t, sink)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	capabilities, err := remote.Capabilities(ctx)
	require.NoError(t, err)
	require.Equal(t, "CHECKPOINT,TRANSACTION,BATCH,SNAPSHOT,SNAPSHOT_COMPLETE,SNAPSHOT_PROGRESS", capabilities.Set.String())

	unit := snapshotUnit()
	counts, err := remote.HandleSnapshot(ctx, unit)
	require.NoError(t, err)
	require.Equal(t, uint64(2), *counts.Inserted)
	require.Equal(t, *unit, sink.snapshots[0])

	bare := &core.SnapshotUnit{Call: call(), RunID: [16]byte{1}, Generation: 1, Token: []byte{}}
	_, err = remote.HandleSnapshot(ctx, bare)
	require.NoError(t, err)
	require.Equal(t, *bare, sink.snapshots[1])

	complete := &core.SnapshotCompleteUnit{
		Call: call(), Checkpoint: 100, RunID: [16]byte{7}, Generation: 1, Relations: []*core.Relation{people(), people()}, ResumeState: []byte("r"),
	}
	ack, err := remote.HandleSnapshotComplete(ctx, complete)
	require.NoError(t, err)
	require.Equal(t, core.LSN(100), ack.Checkpoint)
	require.Equal(t, *complete, sink.completions[0])

	question := core.SnapshotProgressRequest{StreamID: "s", Source: core.SourceIdentity{SystemIdentifier: "7", Database: "d", Slot: "s", Timeline: 1}}
	for _, kept := range [][]byte{nil, {}, []byte("a\x00b")} {
		sink.token = kept
		token, err := remote.SnapshotProgress(ctx, question)
		require.NoError(t, err)
		require.Equal(t, kept, token, "nil is never any, and an empty token is one")
	}
	require.Equal(t, question, sink.questions[0])
}

// What cannot be read is an error and never "no token".
func TestSnapshotCallsThatFail(t *testing.T) {
	sink := &copier{}
	sink.err = &core.Refusal{Reason: core.ReasonFenced}
	remote := serveSink(t, sink)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := remote.HandleSnapshot(ctx, snapshotUnit())
	requireClass(t, err, core.ClassFenced, "HandleSnapshot")
	_, err = remote.HandleSnapshotComplete(ctx, &core.SnapshotCompleteUnit{Call: call(), Checkpoint: 1, Generation: 1})
	requireClass(t, err, core.ClassFenced, "HandleSnapshotComplete")
	sink.err = status.Error(codes.DataLoss, "")
	token, err := remote.SnapshotProgress(ctx, core.SnapshotProgressRequest{StreamID: "s"})
	require.Nil(t, token)
	requireClass(t, err, core.ClassRefused, "SnapshotProgress")

	sink.err = nil
	sink.token = make([]byte, core.ProgressTokenMax+1)
	_, err = remote.SnapshotProgress(ctx, core.SnapshotProgressRequest{StreamID: "s"})
	requireClass(t, err, core.ClassRefused, "SnapshotProgress")
	_, err = remote.HandleSnapshotComplete(ctx, &core.SnapshotCompleteUnit{Call: call(), Generation: 1})
	requireClass(t, err, core.ClassRefused, "HandleSnapshotComplete") // no checkpoint_lsn
	_, err = remote.HandleSnapshot(ctx, &core.SnapshotUnit{Call: call(), Generation: 1, Rows: snapshotUnit().Rows})
	failure := requireClass(t, err, core.ClassRefused, "HandleSnapshot")
	require.True(t, failure.NeverSent)
}

func requireClass(t *testing.T, err error, class core.Class, call string) *core.SinkError {
	t.Helper()
	failure, ok := err.(*core.SinkError)
	require.True(t, ok, "%v", err)
	require.Equal(t, class, failure.Class, "%v", err)
	require.Equal(t, call, failure.Call)
	return failure
}

func TestSnapshotCallsOfASinkWithoutThem(t *testing.T) {
	remote := serveSink(t, &recorder{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := remote.HandleSnapshot(ctx, snapshotUnit())
	require.Equal(t, core.HaltSinkContract, requireClass(t, err, core.ClassRefused, "HandleSnapshot").Halt)
	_, err = remote.HandleSnapshotComplete(ctx, &core.SnapshotCompleteUnit{Call: call(), Checkpoint: 1, Generation: 1})
	require.Equal(t, core.HaltSinkContract, requireClass(t, err, core.ClassRefused, "HandleSnapshotComplete").Halt)
	_, err = remote.SnapshotProgress(ctx, core.SnapshotProgressRequest{StreamID: "s"})
	require.Equal(t, core.HaltSinkContract, requireClass(t, err, core.ClassRefused, "SnapshotProgress").Halt)
}

func TestBrokenCompletionsAreRefusedByField(t *testing.T) {
	sound := func() *sinkv1.HandleSnapshotCompleteRequest {
		return wire.SnapshotCompleteToProto(&core.SnapshotCompleteUnit{Call: call(), Checkpoint: 9, Generation: 1, Relations: []*core.Relation{people()}})
	}
	_, err := wire.SnapshotCompleteFromProto(sound())
	require.NoError(t, err)
	type request = *sinkv1.HandleSnapshotCompleteRequest
	for path, spoil := range map[string]func(request){
		"context":               func(m request) { m.Context = nil },
		"expected_checkpoint":   func(m request) { m.ExpectedCheckpoint = proto.Uint64(0) },
		"checkpoint_lsn":        func(m request) { m.CheckpointLsn = proto.Uint64(0) },
		"completion":            func(m request) { m.Completion = nil },
		"completion.run_id":     func(m request) { m.Completion.RunId = nil },
		"completion.generation": func(m request) { m.Completion.Generation = 0 },
		"completion.relations":  func(m request) { m.Completion.Relations = manyRelations(m.Completion.Relations[0]) },
		"completion.relations[0].table_name": func(m request) {
			m.Completion.Relations[0].TableName = ""
		},
	} {
		message := sound()
		spoil(message)
		_, err := wire.SnapshotCompleteFromProto(message)
		field, ok := err.(*wire.FieldError)
		require.True(t, ok, "%s: %v", path, err)
		require.Equal(t, path, field.Path)
	}
	_, err = wire.SnapshotProgressFromProto(&sinkv1.SnapshotProgressRequest{Source: &sinkv1.SourceIdentity{}})
	require.Error(t, err)
	_, err = wire.SnapshotProgressFromProto(&sinkv1.SnapshotProgressRequest{StreamId: "s"})
	require.Error(t, err)
}
