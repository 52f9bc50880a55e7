package conformance

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// change is one step of a transaction, before it has an index into a request.
type change struct {
	op       sinkv1.ChangeOp
	shape    *shape
	now, old []cell
	oldKind  sinkv1.OldRowKind
	truncate []*shape
	message  *sinkv1.LogicalMessage
}

func insert(s *shape, values ...any) change {
	return change{op: sinkv1.ChangeOp_CHANGE_OP_INSERT, shape: s, now: cells(values...)}
}

// update carries the new row alone: the key did not change.
func update(s *shape, values ...any) change {
	return change{op: sinkv1.ChangeOp_CHANGE_OP_UPDATE, shape: s, now: cells(values...)}
}

// rekey is an update of the row with another key: old holds the key's values in their
// order.
func rekey(s *shape, old []any, values ...any) change {
	c := update(s, values...)
	c.old, c.oldKind = keyRow(s, old), sinkv1.OldRowKind_OLD_ROW_KIND_KEY
	return c
}

// replace is an update under identity FULL.
func replace(s *shape, old []any, values ...any) change {
	c := update(s, values...)
	c.old, c.oldKind = cells(old...), sinkv1.OldRowKind_OLD_ROW_KIND_FULL
	return c
}

// remove deletes by the key's values.
func remove(s *shape, key ...any) change {
	return change{
		op: sinkv1.ChangeOp_CHANGE_OP_DELETE, shape: s,
		old: keyRow(s, key), oldKind: sinkv1.OldRowKind_OLD_ROW_KIND_KEY,
	}
}

// removeFull deletes by the whole old row.
func removeFull(s *shape, values ...any) change {
	return change{
		op: sinkv1.ChangeOp_CHANGE_OP_DELETE, shape: s,
		old: cells(values...), oldKind: sinkv1.OldRowKind_OLD_ROW_KIND_FULL,
	}
}

func truncate(shapes ...*shape) change {
	return change{op: sinkv1.ChangeOp_CHANGE_OP_TRUNCATE, truncate: shapes}
}

func keyRow(s *shape, key []any) []cell {
	row := make([]cell, len(s.relation.GetColumns()))
	for i := range row {
		row[i] = cell{letter: letterAbsent}
	}
	for i, c := range cells(key...) {
		row[s.key[i]] = c
	}
	return row
}

// txn is one transaction as the source committed it.
type txn struct {
	xid         uint32
	commit, end uint64
	changes     []change
}

// relations collects the shapes that a request refers to.
type relations struct {
	list  []*sinkv1.Relation
	index map[*shape]uint32
}

func (r *relations) of(s *shape) uint32 {
	at, known := r.index[s]
	if !known {
		if r.index == nil {
			r.index = map[*shape]uint32{}
		}
		at = uint32(len(r.list))
		r.index[s], r.list = at, append(r.list, s.relation)
	}
	return at
}

func (r *relations) change(c change) *sinkv1.Change {
	out := &sinkv1.Change{
		Op: c.op, NewRow: wireRow(c.now), OldRow: wireRow(c.old), OldRowKind: c.oldKind, Message: c.message,
	}
	if c.shape != nil {
		out.RelationIndex = r.of(c.shape)
	}
	if c.truncate != nil {
		out.Truncate = &sinkv1.Truncate{}
		for _, s := range c.truncate {
			out.Truncate.RelationIndexes = append(out.Truncate.RelationIndexes, r.of(s))
		}
	}
	return out
}

func (r *relations) transaction(t *txn) *sinkv1.Transaction {
	out := &sinkv1.Transaction{
		Xid: t.xid, CommitLsn: t.commit, EndLsn: t.end,
		CommitTime: timestamppb.New(sourceClock),
	}
	for _, c := range t.changes {
		out.Changes = append(out.Changes, r.change(c))
	}
	return out
}
