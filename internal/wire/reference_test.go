package wire_test

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// The reference: the same conversions, written plainly over the generated code alone.

func referenceRequest(u *core.Unit) *sinkv1.HandleBatchRequest {
	m := &sinkv1.HandleBatchRequest{
		Context: &sinkv1.StreamContext{
			StreamId: u.Call.StreamID, CheckpointOwner: sinkv1.CheckpointOwner(u.Call.Owner), Epoch: u.Call.Epoch,
			SenderId: u.Call.SenderID[:], Sequence: u.Call.Sequence, InstanceId: u.Call.InstanceID,
		},
		ResumeState: u.ResumeState,
	}
	if u.Expected != 0 {
		m.ExpectedCheckpoint = proto.Uint64(uint64(u.Expected))
	}
	if u.Checkpoint != 0 {
		m.CheckpointLsn = proto.Uint64(uint64(u.Checkpoint))
	}
	index := map[*core.Relation]uint32{}
	told := func(r *core.Relation) uint32 {
		if _, known := index[r]; !known {
			index[r] = uint32(len(index))
			m.Relations = append(m.Relations, referenceRelation(r))
		}
		return index[r]
	}
	for i := range u.Transactions {
		t := &u.Transactions[i]
		out := &sinkv1.Transaction{
			Xid: t.XID, CommitLsn: uint64(t.CommitLSN), EndLsn: uint64(t.EndLSN), Origin: t.Origin,
		}
		if !t.CommitTime.IsZero() {
			out.CommitTime = timestamppb.New(t.CommitTime)
		}
		for j := range t.Changes {
			out.Changes = append(out.Changes, referenceChange(&t.Changes[j], told))
		}
		m.Transactions = append(m.Transactions, out)
	}
	return m
}

func referenceRelation(r *core.Relation) *sinkv1.Relation {
	m := &sinkv1.Relation{
		RelationOid: r.OID, SchemaName: r.Schema, TableName: r.Name, ShapeHash: r.ShapeHash(),
		ReplicaIdentity: map[core.ReplicaIdentity]sinkv1.ReplicaIdentity{
			'd': sinkv1.ReplicaIdentity_REPLICA_IDENTITY_DEFAULT, 'n': sinkv1.ReplicaIdentity_REPLICA_IDENTITY_NOTHING,
			'f': sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, 'i': sinkv1.ReplicaIdentity_REPLICA_IDENTITY_INDEX,
		}[r.Identity],
	}
	for _, c := range r.Columns {
		column := &sinkv1.Column{
			Name: c.Name, TypeOid: c.TypeOID, TypeModifier: c.TypeModifier, Identity: c.Identity,
			TypeName: c.TypeName, BaseTypeOid: c.BaseTypeOID, ElementTypeOid: c.ElementTypeOID,
		}
		if c.PrimaryKeyPosition > 0 {
			column.PrimaryKeyPosition = &c.PrimaryKeyPosition
		}
		m.Columns = append(m.Columns, column)
	}
	return m
}

func referenceRow(t core.Tuple) *sinkv1.Row {
	if t.IsZero() {
		return nil
	}
	row := &sinkv1.Row{}
	for _, v := range t.Values() {
		row.Kinds += string(rune(v.Kind))
		row.Values = append(row.Values, append([]byte{}, v.Text...))
	}
	return row
}

func referenceChange(c *core.Change, told func(*core.Relation) uint32) *sinkv1.Change {
	m := &sinkv1.Change{
		Op: sinkv1.ChangeOp(c.Op), OldRowKind: sinkv1.OldRowKind(c.OldKind),
		NewRow: referenceRow(c.New), OldRow: referenceRow(c.Old),
	}
	if c.Relation != nil {
		m.RelationIndex = told(c.Relation)
	}
	if c.Truncate != nil {
		m.Truncate = &sinkv1.Truncate{Cascade: c.Truncate.Cascade, RestartIdentity: c.Truncate.RestartIdentity}
		for _, r := range c.Truncate.Relations {
			m.Truncate.RelationIndexes = append(m.Truncate.RelationIndexes, told(r))
		}
	}
	if c.Message != nil {
		m.Message = &sinkv1.LogicalMessage{
			Transactional: c.Message.Transactional, Lsn: uint64(c.Message.LSN), Prefix: c.Message.Prefix, Content: c.Message.Content,
		}
	}
	return m
}
