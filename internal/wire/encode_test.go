package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
)

// The bytes written by hand are those of the generated code, and are counted exactly.
// One encoder serves all units, as it does in a run.
func TestEncodedUnitIsWhatGeneratedCodeWrites(t *testing.T) {
	var encoder wire.Encoder
	rapid.Check(t, func(t *rapid.T) {
		unit := drawUnit(t, 4)
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(referenceRequest(unit))
		require.NoError(t, err)
		raw, err := encoder.Batch(unit)
		require.NoError(t, err)
		require.Equal(t, want, raw.Bytes())
		raw.Free()
		prefixed, err := encoder.AppendBatchRequest([]byte("prefix"), unit)
		require.NoError(t, err)
		require.Equal(t, append([]byte("prefix"), want...), prefixed)
	})
}

// The engine sizes batches by Transaction.Size. It has to be an upper bound, and close.
func TestTransactionSizeBoundsTheEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := drawUnit(t, 1)
		for i := range unit.Transactions {
			changes := unit.Transactions[i].Changes
			actual, slack := 0, 0
			for _, change := range referenceRequest(unit).GetTransactions()[i].GetChanges() {
				body := proto.Size(change)
				actual += body + 1 + sizeOfLength(body)
			}
			for j := range changes {
				slack += slackOf(&changes[j])
			}
			bound := unit.Transactions[i].Size
			require.LessOrEqual(t, actual, bound)
			require.LessOrEqual(t, bound-actual, slack)
		}
		for _, relation := range relationsOf(unit) {
			size := proto.Size(referenceRelation(relation))
			require.LessOrEqual(t, size+1+sizeOfLength(size), relation.EncodedMax())
		}
	})
}

// slackOf is by how much the bound of a change may be above its size: a relation index
// at its widest, and for the rare kinds flags and an LSN that may be shorter.
func slackOf(c *core.Change) int {
	switch {
	case c.Truncate != nil:
		return 16 + 2*len(c.Truncate.Relations)
	case c.Message != nil:
		return 24
	}
	return 5
}

func sizeOfLength(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

func relationsOf(u *core.Unit) []*core.Relation {
	var list []*core.Relation
	for _, t := range u.Transactions {
		for _, c := range t.Changes {
			if c.Relation != nil {
				list = append(list, c.Relation)
			}
		}
	}
	return list
}

func TestUnitsThatHaveNoForm(t *testing.T) {
	var encoder wire.Encoder
	unit := func(changes ...core.Change) *core.Unit {
		return &core.Unit{Call: call(), Checkpoint: 9, Transactions: []core.Transaction{{CommitLSN: 1, EndLSN: 2, Changes: changes}}}
	}
	row := core.PackTuple(core.Text("1"), core.Null())
	_, err := encoder.Batch(unit(core.Change{Op: core.OpInsert, New: row}))
	require.ErrorIs(t, err, wire.ErrNoRelation)

	latin := people()
	latin.Columns[1].Name = "stra\xdfe"
	_, err = encoder.Batch(unit(core.Change{Op: core.OpInsert, Relation: latin, New: row}))
	require.ErrorIs(t, err, wire.ErrNotUTF8)
	foreign := unit()
	foreign.Transactions[0].Origin = "\xff"
	_, err = encoder.Batch(foreign)
	require.ErrorIs(t, err, wire.ErrNotUTF8)

	many := unit()
	for range core.RelationsMax + 1 {
		many.Transactions[0].Changes = append(many.Transactions[0].Changes, core.Change{Op: core.OpInsert, Relation: people(), New: row})
	}
	_, err = encoder.Batch(many)
	require.ErrorIs(t, err, wire.ErrTooManyRelations)
	many.Transactions[0].Changes = many.Transactions[0].Changes[1:]
	raw, err := encoder.Batch(many)
	require.NoError(t, err)
	raw.Free()

	two := unit()
	two.Transactions = append(two.Transactions, two.Transactions[0])
	_, err = encoder.Transaction(two)
	require.ErrorIs(t, err, wire.ErrManyTransactions)
	require.False(t, strings.Contains(err.Error(), "straße"))
}
