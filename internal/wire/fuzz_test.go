package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// FuzzDecodeBatch: no input panics, and what the decoder takes the generated code takes
// too, and both read the same from it: the unit, encoded again, is the message without
// its unknown fields.
func FuzzDecodeBatch(f *testing.F) {
	sound, err := proto.Marshal(soundRequest())
	require.NoError(f, err)
	f.Add(sound)
	f.Add([]byte{})
	decoder := wire.NewDecoder(&wire.RelationCache{})
	f.Fuzz(func(t *testing.T, request []byte) {
		unit, err := decoder.Batch(request)
		if err != nil {
			return
		}
		var message sinkv1.HandleBatchRequest
		require.NoError(t, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(request, &message))
		requireSameContent(t, &message, referenceRequest(unit))
	})
}

// requireSameContent compares a received message with one made from the decoded unit.
// What a unit does not keep is taken out of the first: the relation table as such, with
// unused entries and its order, hashes, and what means nothing beside the op.
func requireSameContent(t *testing.T, got, want *sinkv1.HandleBatchRequest) {
	t.Helper()
	resolve(got)
	resolve(want)
	require.True(t, proto.Equal(got, want), "decoded differs from generated:\n%v\n%v", got, want)
}

// resolve replaces each change's relation index by the hash of the relation's content.
func resolve(m *sinkv1.HandleBatchRequest) {
	names := make([]uint32, len(m.GetRelations()))
	for i, relation := range m.GetRelations() {
		relation.ShapeHash = 0
		encoded, _ := proto.MarshalOptions{Deterministic: true}.Marshal(relation)
		for _, b := range encoded {
			names[i] = names[i]*16777619 ^ uint32(b)
		}
	}
	for _, transaction := range m.GetTransactions() {
		for _, change := range transaction.GetChanges() {
			switch core.Op(change.GetOp()) {
			case core.OpTruncate:
				change.RelationIndex = 0
				for i, index := range change.GetTruncate().GetRelationIndexes() {
					change.Truncate.RelationIndexes[i] = names[index]
				}
			case core.OpMessage:
				change.RelationIndex = 0
			default:
				change.RelationIndex = names[change.GetRelationIndex()]
			}
		}
	}
	m.Relations = nil
}

// FuzzDecodeLarge: no sequence of frames panics or is taken beyond its commit.
func FuzzDecodeLarge(f *testing.F) {
	for _, frame := range largeFrames(f) {
		f.Add(frame, frame)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		decoder := wire.NewLargeDecoder(&wire.RelationCache{})
		if _, err := decoder.Begin(first); err == nil {
			require.NoError(t, proto.Unmarshal(first, &sinkv1.HandleLargeTransactionRequest{}))
		}
		for range 3 {
			frame, shown, err := decoder.Next(second)
			if err == nil {
				require.NoError(t, proto.Unmarshal(second, &sinkv1.HandleLargeTransactionRequest{}))
			}
			if shown && frame.Commit != nil {
				_, _, err := decoder.Next(second)
				require.Error(t, err)
				return
			}
		}
	})
}
