package wire_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// sameUnit compares what a decoder returned with the unit that was encoded. Relations
// are compared by content, as their pointers are the decoder's.
func sameUnit(t require.TestingT, want, got *core.Unit) {
	require.Equal(t, want.Call, got.Call)
	require.Equal(t, want.Expected, got.Expected)
	require.Equal(t, want.Checkpoint, got.Checkpoint)
	require.Equal(t, want.ResumeState == nil, got.ResumeState == nil)
	require.Equal(t, string(want.ResumeState), string(got.ResumeState))
	require.Len(t, got.Transactions, len(want.Transactions))
	for i := range want.Transactions {
		w, g := want.Transactions[i], got.Transactions[i]
		require.True(t, w.CommitTime.Equal(g.CommitTime))
		sameChanges(t, w.Changes, g.Changes)
		w.Changes, w.CommitTime, w.Size = nil, time.Time{}, 0
		g.Changes, g.CommitTime, g.Size = nil, time.Time{}, 0
		require.Equal(t, w, g)
	}
}

func sameChanges(t require.TestingT, want, got []core.Change) {
	require.Len(t, got, len(want))
	for i := range want {
		w, g := want[i], got[i]
		sameTuple(t, w.New, g.New)
		sameTuple(t, w.Old, g.Old)
		w.New, w.Old, g.New, g.Old = core.Tuple{}, core.Tuple{}, core.Tuple{}, core.Tuple{}
		if w.Message != nil {
			require.NotNil(t, g.Message)
			require.Equal(t, string(w.Message.Prefix), string(g.Message.Prefix))
			require.Equal(t, string(w.Message.Content), string(g.Message.Content))
			require.Equal(t, w.Message.LSN, g.Message.LSN)
			require.Equal(t, w.Message.Transactional, g.Message.Transactional)
			w.Message, g.Message = nil, nil
		}
		require.Equal(t, w, g)
	}
}

func sameTuple(t require.TestingT, want, got core.Tuple) {
	require.Equal(t, want.IsZero(), got.IsZero())
	require.Equal(t, want.Len(), got.Len())
	for i, v := range want.Values() {
		require.Equal(t, v.Kind, got.Value(i).Kind)
		require.Equal(t, string(v.Text), string(got.Value(i).Text))
	}
}

func TestDecodedUnitIsTheOneEncoded(t *testing.T) {
	var encoder wire.Encoder
	var cache wire.RelationCache
	decoder := wire.NewDecoder(&cache)
	rapid.Check(t, func(t *rapid.T) {
		unit := drawUnit(t, 4)
		raw, err := encoder.Batch(unit)
		require.NoError(t, err)
		defer raw.Free()
		got, err := decoder.Batch(raw.Bytes())
		require.NoError(t, err)
		sameUnit(t, unit, got)
		if len(unit.Transactions) <= 1 {
			got, err = decoder.Transaction(raw.Bytes())
			require.NoError(t, err)
			sameUnit(t, unit, got)
		}
	})
}

// Rows are views: they lie inside the request and are not copied.
func TestDecodedRowsAliasTheRequest(t *testing.T) {
	unit := &core.Unit{Call: call(), Checkpoint: 9, Transactions: []core.Transaction{{CommitLSN: 1, EndLSN: 2, Changes: []core.Change{
		{Op: core.OpInsert, Relation: people(), New: core.PackTuple(core.Text("findme"), core.Null())},
	}}}}
	var encoder wire.Encoder
	request, err := encoder.AppendBatchRequest(nil, unit)
	require.NoError(t, err)
	got, err := wire.NewDecoder(&wire.RelationCache{}).Batch(request)
	require.NoError(t, err)
	text := got.Transactions[0].Changes[0].New.Value(0).Text
	require.Equal(t, "findme", string(text))
	for i := range request {
		request[i] = '#'
	}
	require.Equal(t, "######", string(text))
}

// scramble writes a message anew as any other protobuf library might: fields in another
// order (repeated ones keep theirs), singular sub-messages in two pieces, unknown
// fields in between, and all of that below as well.
func scramble(random *rand.Rand, message []byte, depth int) []byte {
	byField := map[protowire.Number][][]byte{}
	var order []protowire.Number
	for len(message) > 0 {
		id, kind, n := protowire.ConsumeField(message)
		_, _, tag := protowire.ConsumeTag(message)
		piece := message[:n]
		if kind == -1 || id < 0 {
			panic("scramble: not a message")
		}
		if _, wireType, _ := protowire.ConsumeTag(message); wireType == protowire.BytesType && depth > 0 {
			body, _ := protowire.ConsumeBytes(message[tag:])
			if isMessage(id, depth) {
				piece = protowire.AppendBytes(message[:tag:tag], scramble(random, body, depth-1))
			}
		}
		byField[id] = append(byField[id], piece)
		order = append(order, id)
		message = message[n:]
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var out []byte
	for _, id := range order {
		if random.IntN(2) == 0 {
			out = protowire.AppendTag(out, 200, protowire.VarintType)
			out = protowire.AppendVarint(out, 7)
		}
		out = append(out, byField[id][0]...)
		byField[id] = byField[id][1:]
	}
	return out
}

// isMessage names the fields on the way from a request down to a row.
func isMessage(id protowire.Number, depth int) bool {
	switch depth {
	case 4: // request
		return id == 5
	case 3: // transaction
		return id == 6
	case 2: // change
		return id == 3 || id == 4
	}
	return false
}

func TestAnyLayoutIsRead(t *testing.T) {
	var encoder wire.Encoder
	decoder := wire.NewDecoder(&wire.RelationCache{})
	rapid.Check(t, func(t *rapid.T) {
		unit := drawUnit(t, 3)
		raw, err := encoder.Batch(unit)
		require.NoError(t, err)
		defer raw.Free()
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		scrambled := scramble(random, raw.Bytes(), 4)
		got, err := decoder.Batch(scrambled)
		require.NoError(t, err)
		sameUnit(t, unit, got)
	})
}

// A sub-message in two pieces means their merger.
func TestSplitSubMessagesAreMerged(t *testing.T) {
	unit := &core.Unit{Call: call(), Checkpoint: 9, Transactions: []core.Transaction{{CommitLSN: 1, EndLSN: 2, Changes: []core.Change{
		{Op: core.OpInsert, Relation: people(), New: core.PackTuple(core.Text("one"), core.Text("two"))},
	}}}}
	message := referenceRequest(unit)
	head, tail := proto.CloneOf(message), &sinkv1.HandleBatchRequest{Context: &sinkv1.StreamContext{Sequence: unit.Call.Sequence}}
	head.Context.Sequence = 1
	first, err := proto.Marshal(head)
	require.NoError(t, err)
	second, err := proto.Marshal(tail)
	require.NoError(t, err)
	got, err := wire.NewDecoder(&wire.RelationCache{}).Batch(append(first, second...))
	require.NoError(t, err)
	sameUnit(t, unit, got)

	// The row: its kinds in one piece of new_row, its values in another.
	change := message.GetTransactions()[0].GetChanges()[0]
	values := change.GetNewRow().GetValues()
	change.NewRow.Values = nil
	base, err := proto.Marshal(change)
	require.NoError(t, err)
	rest, err := proto.Marshal(&sinkv1.Change{NewRow: &sinkv1.Row{Values: values}})
	require.NoError(t, err)
	message.Transactions[0].Changes = nil
	transaction, err := proto.Marshal(message.GetTransactions()[0])
	require.NoError(t, err)
	transaction = protowire.AppendBytes(protowire.AppendTag(transaction, 6, protowire.BytesType), append(base, rest...))
	message.Transactions = nil
	request, err := proto.Marshal(message)
	require.NoError(t, err)
	request = protowire.AppendBytes(protowire.AppendTag(request, 5, protowire.BytesType), transaction)
	got, err = wire.NewDecoder(&wire.RelationCache{}).Batch(request)
	require.NoError(t, err)
	sameUnit(t, unit, got)
}
