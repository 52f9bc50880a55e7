package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

const secret = "SECRET"

// soundRequest is a request that passes; each case below breaks one thing of it.
func soundRequest() *sinkv1.HandleBatchRequest {
	row := core.PackTuple(core.Text(secret), core.Null())
	relation := people()
	key := core.PackTuple(core.Text(secret), core.Value{Kind: core.ValueAbsent})
	return referenceRequest(&core.Unit{Call: call(), Expected: 5, Checkpoint: 9, Transactions: []core.Transaction{{
		CommitLSN: 6, EndLSN: 9, Changes: []core.Change{
			{Op: core.OpInsert, Relation: relation, New: row},
			{Op: core.OpUpdate, Relation: relation, New: row, Old: key, OldKind: core.OldKey},
			{Op: core.OpDelete, Relation: relation, Old: key, OldKind: core.OldKey},
			{Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{relation}}},
			{Op: core.OpMessage, Message: &core.Message{Transactional: true, LSN: 7, Prefix: []byte(secret)}},
		},
	}}})
}

func TestBrokenRequestsAreRefusedByField(t *testing.T) {
	change := func(m *sinkv1.HandleBatchRequest, i int) *sinkv1.Change {
		return m.GetTransactions()[0].GetChanges()[i]
	}
	type request = *sinkv1.HandleBatchRequest
	cases := []struct {
		path  string
		spoil func(request)
	}{
		{"context", func(m request) { m.Context = nil }},
		{"context.stream_id", func(m request) { m.Context.StreamId = "" }},
		{"context.checkpoint_owner", func(m request) { m.Context.CheckpointOwner = 0 }},
		{"context.checkpoint_owner", func(m request) { m.Context.CheckpointOwner = 3 }},
		{"context.sender_id", func(m request) { m.Context.SenderId = []byte("short") }},
		{"context.instance_id", func(m request) { m.Context.InstanceId = make([]byte, 65) }},
		{"expected_checkpoint", func(m request) { m.ExpectedCheckpoint = proto.Uint64(0) }},
		{"checkpoint_lsn", func(m request) { m.CheckpointLsn = proto.Uint64(0) }},
		{"relations[0].replica_identity", func(m request) { m.Relations[0].ReplicaIdentity = 0 }},
		{"relations[0].replica_identity", func(m request) { m.Relations[0].ReplicaIdentity = 5 }},
		{"relations[0].table_name", func(m request) { m.Relations[0].TableName = "" }},
		{"relations[0].columns[1].primary_key_position", func(m request) { m.Relations[0].Columns[1].PrimaryKeyPosition = proto.Uint32(0) }},
		{"relations[0].columns", func(m request) { m.Relations[0].Columns = make1601Columns() }},
		{"relations[10000]", func(m request) { m.Relations = manyRelations(m.Relations[0]) }},
		{"transactions[0].end_lsn", func(m request) { m.Transactions[0].EndLsn = 0 }},
		{"transactions[0].commit_lsn", func(m request) { m.Transactions[0].CommitLsn = 0 }},
		{"transactions[0].commit_time", func(m request) { m.Transactions[0].CommitTime = &timestamppb.Timestamp{Nanos: -1} }},
		{"transactions[0].changes[0].op", func(m request) { change(m, 0).Op = 0 }},
		{"transactions[0].changes[0].op", func(m request) { change(m, 0).Op = 6 }},
		{"transactions[0].changes[0].op", func(m request) { change(m, 0).Op = -1 }},
		{"transactions[0].changes[0].relation_index", func(m request) { change(m, 0).RelationIndex = 1 }},
		{"transactions[0].changes[0].relation_index", func(m request) { m.Relations = nil }},
		{"transactions[0].changes[0].new_row", func(m request) { change(m, 0).NewRow = nil }},
		{"transactions[0].changes[0].new_row.kinds", func(m request) { *change(m, 0).NewRow = sinkv1.Row{Kinds: "t", Values: [][]byte{nil}} }},
		{"transactions[0].changes[0].new_row.kinds", func(m request) { *change(m, 0).NewRow = sinkv1.Row{} }},
		{"transactions[0].changes[0].new_row", func(m request) { change(m, 0).NewRow.Kinds = "tb" }},
		{"transactions[0].changes[0].new_row", func(m request) { change(m, 0).NewRow.Kinds = "tl" }},
		{"transactions[0].changes[0].new_row", func(m request) { change(m, 0).NewRow.Kinds = "tnn" }},
		{"transactions[0].changes[0].new_row", func(m request) { change(m, 0).NewRow.Kinds = "nn" }},
		{"transactions[0].changes[0].old_row", func(m request) { change(m, 0).OldRow = change(m, 2).OldRow }},
		{"transactions[0].changes[0].old_row_kind", func(m request) { change(m, 0).OldRowKind = 1 }},
		{"transactions[0].changes[1].old_row_kind", func(m request) { change(m, 1).OldRowKind = 3 }},
		{"transactions[0].changes[1].old_row_kind", func(m request) { change(m, 1).OldRowKind = 0 }},
		{"transactions[0].changes[2].old_row", func(m request) { change(m, 2).OldRow = nil }},
		{"transactions[0].changes[2].new_row", func(m request) { change(m, 2).NewRow = change(m, 0).NewRow }},
		{"transactions[0].changes[3].truncate", func(m request) { change(m, 3).Truncate = nil }},
		{"transactions[0].changes[3].truncate.relation_indexes", func(m request) { change(m, 3).Truncate.RelationIndexes = nil }},
		{"transactions[0].changes[3].truncate.relation_indexes[1]", func(m request) { change(m, 3).Truncate.RelationIndexes = []uint32{0, 1} }},
		{"transactions[0].changes[0].truncate", func(m request) { change(m, 0).Truncate = change(m, 3).Truncate }},
		{"transactions[0].changes[4].message", func(m request) { change(m, 4).Message = nil }},
		{"transactions[0].changes[4].message.lsn", func(m request) { change(m, 4).Message.Lsn = 0 }},
		{"transactions[0].changes[0].message", func(m request) { change(m, 0).Message = change(m, 4).Message }},
	}
	decoder := wire.NewDecoder(&wire.RelationCache{})
	sound, err := proto.Marshal(soundRequest())
	require.NoError(t, err)
	_, err = decoder.Batch(sound)
	require.NoError(t, err)
	for _, c := range cases {
		message := soundRequest()
		c.spoil(message)
		request, err := proto.Marshal(message)
		require.NoError(t, err)
		_, err = decoder.Batch(request)
		field, ok := errors.AsType[*wire.FieldError](err)
		require.True(t, ok, "%s: %v", c.path, err)
		require.Equal(t, c.path, field.Path)
		require.NotEmpty(t, field.Problem)
		require.False(t, strings.Contains(err.Error(), secret), "%s shows a value", c.path)
	}
}

func make1601Columns() []*sinkv1.Column {
	columns := make([]*sinkv1.Column, core.ColumnsMax+1)
	for i := range columns {
		columns[i] = &sinkv1.Column{}
	}
	return columns
}

func manyRelations(one *sinkv1.Relation) []*sinkv1.Relation {
	list := make([]*sinkv1.Relation, core.RelationsMax+1)
	for i := range list {
		list[i] = one
	}
	return list
}

func TestBytesThatAreNoMessageAreRefused(t *testing.T) {
	decoder := wire.NewDecoder(&wire.RelationCache{})
	sound, err := proto.Marshal(soundRequest())
	require.NoError(t, err)
	for n := range sound {
		_, err := decoder.Batch(sound[:n])
		if n > 0 && err == nil {
			// Cut between two fields of the request: still a message, of fewer changes.
			require.NoError(t, proto.Unmarshal(sound[:n], &sinkv1.HandleBatchRequest{}))
		}
	}
	for _, garbage := range []string{"\x0f", "\x03", "\x04", "\x00\x00", "\x0a\x05ab", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"} {
		_, err := decoder.Batch([]byte(garbage))
		require.Error(t, err, "%q", garbage)
	}
}
