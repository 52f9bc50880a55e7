package wire_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func largeBegin() core.LargeBegin {
	return core.LargeBegin{Call: call(), Expected: 5, XID: 8, CommitLSN: 90, CommitTime: time.Unix(1e9, 0).UTC(), Origin: "o"}
}

// largeFrames is one large transaction as it goes over the wire.
func largeFrames(t testing.TB) [][]byte {
	encoder := wire.NewLargeEncoder(1 << 20)
	var frames [][]byte
	add := func(raw *wire.Raw, err error) {
		require.NoError(t, err)
		frames = append(frames, append([]byte(nil), raw.Bytes()...))
		raw.Free()
	}
	relation := people()
	wider := people()
	wider.Columns = append(wider.Columns, core.Column{Name: "age"})
	add(encoder.Begin(largeBegin()))
	encoder.Changes([]core.Change{{Op: core.OpInsert, Relation: relation, New: core.PackTuple(core.Text("1"), core.Null())}}, 0)
	add(encoder.Frame())
	add(encoder.Frame())
	add(encoder.SchemaChange(&core.SchemaChange{
		Kind: core.SchemaAdditive, What: "columns_added", Before: relation, After: wider, Added: []string{"age"},
	}))
	encoder.Changes([]core.Change{{Op: core.OpInsert, Relation: wider, New: core.PackTuple(core.Text("2"), core.Null(), core.Null())}}, 1)
	add(encoder.Frame())
	add(encoder.Frame())
	add(encoder.Commit(&core.LargeCommit{EndLSN: 95, Checkpoint: 95, ChangeCount: 2, ResumeState: []byte("r")}))
	return frames
}

func TestLargeFramesThereAndBack(t *testing.T) {
	decoder := wire.NewLargeDecoder(&wire.RelationCache{})
	frames := largeFrames(t)
	begin, err := decoder.Begin(frames[0])
	require.NoError(t, err)
	require.Equal(t, largeBegin(), begin)
	var shown []core.LargeFrame
	for _, message := range frames[1:] {
		frame, show, err := decoder.Next(message)
		require.NoError(t, err)
		if show {
			frame.Changes = cloneChanges(frame.Changes)
			shown = append(shown, frame)
		}
	}
	require.Len(t, shown, 4)
	require.Equal(t, people(), shown[0].Changes[0].Relation)
	require.Equal(t, "columns_added", shown[1].SchemaChange.What)
	require.Equal(t, []string{"age"}, shown[1].SchemaChange.Added)
	require.Len(t, shown[1].SchemaChange.After.Columns, 3)
	require.Equal(t, uint64(1), shown[2].FirstChangeIndex)
	require.Len(t, shown[2].Changes[0].Relation.Columns, 3)
	require.Equal(t, &core.LargeCommit{EndLSN: 95, Checkpoint: 95, ChangeCount: 2, ResumeState: []byte("r")}, shown[3].Commit)
	require.True(t, decoder.Committed())
}

// However changes are cut into frames, the frames keep their limit, are what the
// generated code would write, and carry every change once, in order.
func TestLargeChangesKeepTheFrameSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.IntRange(50, 2000).Draw(t, "target")
		relations := []*core.Relation{drawRelation(t), drawRelation(t), drawRelation(t)}
		encoder := wire.NewLargeEncoder(target)
		decoder := wire.NewLargeDecoder(&wire.RelationCache{})
		next := uint64(0)
		for range rapid.IntRange(1, 4).Draw(t, "pieces") {
			var changes, got []core.Change
			for range rapid.IntRange(0, 8).Draw(t, "changes") {
				changes = append(changes, drawChange(t, relations))
			}
			encoder.Changes(changes, next)
			for {
				raw, err := encoder.Frame()
				require.NoError(t, err)
				if raw == nil {
					break
				}
				var message sinkv1.HandleLargeTransactionRequest
				require.NoError(t, proto.Unmarshal(raw.Bytes(), &message))
				again, err := proto.MarshalOptions{Deterministic: true}.Marshal(&message)
				require.NoError(t, err)
				require.Equal(t, again, raw.Bytes())
				if sent := message.GetChanges(); len(sent.GetChanges()) > 1 {
					require.LessOrEqual(t, raw.Len(), target+16)
				}
				frame, shown, err := decoder.Next(raw.Bytes())
				require.NoError(t, err)
				if shown {
					require.Equal(t, next+uint64(len(got)), frame.FirstChangeIndex)
					got = append(got, cloneChanges(frame.Changes)...)
				}
				raw.Free()
			}
			sameChanges(t, changes, got)
			next += uint64(len(changes))
		}
	})
}

func TestBrokenFramesAreRefused(t *testing.T) {
	type request = sinkv1.HandleLargeTransactionRequest
	change := func(m *request) *sinkv1.LargeChanges { return m.GetChanges() }
	cases := []struct {
		path  string
		frame int
		spoil func(*request)
	}{
		{"frame", 0, func(m *request) { m.Frame = nil }},
		{"frame", 0, func(m *request) { m.Frame = &sinkv1.HandleLargeTransactionRequest_Changes{} }},
		{"begin.context", 0, func(m *request) { m.GetBegin().Context = nil }},
		{"begin.expected_checkpoint", 0, func(m *request) { m.GetBegin().ExpectedCheckpoint = proto.Uint64(0) }},
		{"begin.commit_lsn", 0, func(m *request) { m.GetBegin().CommitLsn = 0 }},
		{"relation.table_name", 1, func(m *request) { m.GetRelation().TableName = "" }},
		{"frame", 2, func(m *request) { m.Frame = nil }},
		{"frame", 2, func(m *request) { m.Frame = &sinkv1.HandleLargeTransactionRequest_Begin{Begin: &sinkv1.LargeBegin{}} }},
		{"changes.first_change_index", 2, func(m *request) { change(m).FirstChangeIndex = 1 }},
		{"changes.changes[0].relation_index", 2, func(m *request) { change(m).Changes[0].RelationIndex = 1 }},
		{"changes.changes[0].op", 2, func(m *request) { change(m).Changes[0].Op = 9 }},
		{"schema_change.kind", 3, func(m *request) { m.GetSchemaChange().Kind = 0 }},
		{"schema_change.kind", 3, func(m *request) { m.GetSchemaChange().Kind = 7 }},
		{"schema_change.detail", 3, func(m *request) { m.GetSchemaChange().Detail = 0 }},
		{"schema_change.before", 3, func(m *request) { m.GetSchemaChange().Before = nil }},
		{"schema_change.after.replica_identity", 3, func(m *request) { m.GetSchemaChange().After.ReplicaIdentity = 9 }},
		{"commit.end_lsn", 6, func(m *request) { m.GetCommit().EndLsn = 0 }},
		{"commit.checkpoint_lsn", 6, func(m *request) { m.GetCommit().CheckpointLsn = proto.Uint64(0) }},
		{"commit.change_count", 6, func(m *request) { m.GetCommit().ChangeCount = 3 }},
	}
	for _, c := range cases {
		decoder := wire.NewLargeDecoder(&wire.RelationCache{})
		var err error
		for i, encoded := range largeFrames(t)[:c.frame+1] {
			if i == c.frame {
				var message request
				require.NoError(t, proto.Unmarshal(encoded, &message))
				c.spoil(&message)
				encoded, err = proto.Marshal(&message)
				require.NoError(t, err)
			}
			if i == 0 {
				_, err = decoder.Begin(encoded)
			} else {
				_, _, err = decoder.Next(encoded)
			}
			if i < c.frame {
				require.NoError(t, err)
			}
		}
		field, ok := errors.AsType[*wire.FieldError](err)
		require.True(t, ok, "%s: %v", c.path, err)
		require.Equal(t, c.path, field.Path)
		require.False(t, decoder.Committed())
	}
}
