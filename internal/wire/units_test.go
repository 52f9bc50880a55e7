package wire_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Generators of what the engine may hand over.

func drawLSN(t *rapid.T, name string) core.LSN {
	return core.LSN(rapid.OneOf(rapid.Uint64Range(1, 1<<20), rapid.Uint64Range(1<<62, 1<<64-1)).Draw(t, name))
}

func drawBytes(t *rapid.T, name string) []byte {
	return rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 12),
		rapid.SliceOfN(rapid.Byte(), 120, 300),
	).Draw(t, name)
}

func drawRelation(t *rapid.T) *core.Relation {
	r := &core.Relation{
		OID:    rapid.Uint32Range(1, 1<<32-1).Draw(t, "oid"),
		Schema: rapid.StringN(0, 8, -1).Draw(t, "schema"), Name: rapid.StringN(1, 8, -1).Draw(t, "table"),
		Identity: rapid.SampledFrom([]core.ReplicaIdentity{'d', 'n', 'f', 'i'}).Draw(t, "identity"),
		Columns:  []core.Column{},
	}
	for range rapid.IntRange(0, 5).Draw(t, "columns") {
		r.Columns = append(r.Columns, core.Column{
			Name: rapid.StringN(0, 8, -1).Draw(t, "column"), TypeOID: rapid.Uint32().Draw(t, "type"),
			TypeModifier: rapid.Int32().Draw(t, "modifier"), Identity: rapid.Bool().Draw(t, "in identity"),
			PrimaryKeyPosition: rapid.Uint32Range(0, 3).Draw(t, "key position"),
			TypeName:           rapid.StringN(0, 6, -1).Draw(t, "type name"),
			BaseTypeOID:        rapid.Uint32Range(0, 2).Draw(t, "base"), ElementTypeOID: rapid.Uint32Range(0, 2).Draw(t, "element"),
		})
	}
	return r
}

func drawTuple(t *rapid.T, columns int) core.Tuple {
	values := make([]core.Value, columns)
	for i := range values {
		values[i].Kind = rapid.SampledFrom([]core.ValueKind{'t', 't', 'n', 'u', 'a'}).Draw(t, "kind")
		if values[i].Kind == core.ValueText {
			values[i].Text = drawBytes(t, "text")
		}
	}
	return core.PackTuple(values...)
}

func drawChange(t *rapid.T, relations []*core.Relation) core.Change {
	relation := rapid.SampledFrom(relations).Draw(t, "relation")
	switch op := core.Op(rapid.IntRange(1, 5).Draw(t, "op")); op {
	case core.OpTruncate:
		return core.Change{Op: op, Truncate: &core.Truncate{
			Relations: rapid.SliceOfN(rapid.SampledFrom(relations), 1, 4).Draw(t, "truncated"),
			Cascade:   rapid.Bool().Draw(t, "cascade"), RestartIdentity: rapid.Bool().Draw(t, "restart"),
		}}
	case core.OpMessage:
		return core.Change{Op: op, Message: &core.Message{
			Transactional: true, LSN: drawLSN(t, "message lsn"), Prefix: drawBytes(t, "prefix"), Content: drawBytes(t, "content"),
		}}
	default:
		change := core.Change{Op: op, Relation: relation}
		if op != core.OpDelete {
			change.New = drawTuple(t, len(relation.Columns))
		}
		if op == core.OpDelete || op == core.OpUpdate && rapid.Bool().Draw(t, "has old") {
			change.OldKind = core.OldKind(rapid.IntRange(1, 2).Draw(t, "old kind"))
			change.Old = drawTuple(t, len(relation.Columns))
		}
		return change
	}
}

func drawTransaction(t *rapid.T, relations []*core.Relation) core.Transaction {
	transaction := core.Transaction{
		XID: rapid.Uint32().Draw(t, "xid"), CommitLSN: drawLSN(t, "commit"), EndLSN: drawLSN(t, "end"),
		Origin: rapid.StringN(0, 5, -1).Draw(t, "origin"), Changes: []core.Change{},
	}
	if rapid.Bool().Draw(t, "has time") {
		transaction.CommitTime = time.UnixMicro(rapid.Int64Range(-1e15, 4e15).Draw(t, "time")).UTC()
	}
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		transaction.Changes = append(transaction.Changes, drawChange(t, relations))
	}
	for i := range transaction.Changes {
		transaction.Size += transaction.Changes[i].EncodedMax()
	}
	return transaction
}

func drawCall(t *rapid.T) core.Call {
	c := core.Call{
		StreamID: rapid.StringN(1, 8, -1).Draw(t, "stream"), Owner: core.CheckpointOwner(rapid.IntRange(1, 2).Draw(t, "owner")),
		Epoch: rapid.Uint64().Draw(t, "epoch"), Sequence: rapid.Uint64().Draw(t, "sequence"),
		InstanceID: rapid.SliceOfN(rapid.Byte(), 1, 16).Draw(t, "instance"),
	}
	copy(c.SenderID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "sender"))
	return c
}

func drawUnit(t *rapid.T, transactions int) *core.Unit {
	relations := []*core.Relation{drawRelation(t)}
	for range rapid.IntRange(0, 3).Draw(t, "relations") {
		relations = append(relations, drawRelation(t))
	}
	u := &core.Unit{Call: drawCall(t), Checkpoint: drawLSN(t, "checkpoint")}
	if rapid.Bool().Draw(t, "has expected") {
		u.Expected = drawLSN(t, "expected")
	}
	if rapid.Bool().Draw(t, "has state") {
		u.ResumeState = drawBytes(t, "state")
	}
	for range rapid.IntRange(0, transactions).Draw(t, "transactions") {
		u.Transactions = append(u.Transactions, drawTransaction(t, relations))
	}
	return u
}
