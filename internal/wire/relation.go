package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// identities pairs pgoutput's letters with the contract's numbers.
var identities = []struct {
	letter core.ReplicaIdentity
	number sinkv1.ReplicaIdentity
}{
	{core.IdentityDefault, sinkv1.ReplicaIdentity_REPLICA_IDENTITY_DEFAULT},
	{core.IdentityNothing, sinkv1.ReplicaIdentity_REPLICA_IDENTITY_NOTHING},
	{core.IdentityFull, sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL},
	{core.IdentityIndex, sinkv1.ReplicaIdentity_REPLICA_IDENTITY_INDEX},
}

func encodeRelation(relation *core.Relation) ([]byte, error) {
	message := relationToProto(relation)
	if !utf8.ValidString(relation.Schema) || !utf8.ValidString(relation.Name) {
		return nil, ErrNotUTF8
	}
	for i := range relation.Columns {
		if !utf8.ValidString(relation.Columns[i].Name) || !utf8.ValidString(relation.Columns[i].TypeName) {
			return nil, ErrNotUTF8
		}
	}
	return proto.Marshal(message)
}

func relationToProto(r *core.Relation) *sinkv1.Relation {
	message := &sinkv1.Relation{
		RelationOid: r.OID, SchemaName: r.Schema, TableName: r.Name,
		Columns: make([]*sinkv1.Column, len(r.Columns)), ShapeHash: r.ShapeHash(),
	}
	for _, pair := range identities {
		if pair.letter == r.Identity {
			message.ReplicaIdentity = pair.number
		}
	}
	for i := range r.Columns {
		c := &r.Columns[i]
		column := &sinkv1.Column{
			Name: c.Name, TypeOid: c.TypeOID, TypeModifier: c.TypeModifier, Identity: c.Identity,
			TypeName: c.TypeName, BaseTypeOid: c.BaseTypeOID, ElementTypeOid: c.ElementTypeOID,
		}
		if c.PrimaryKeyPosition != 0 {
			column.PrimaryKeyPosition = proto.Uint32(c.PrimaryKeyPosition)
		}
		message.Columns[i] = column
	}
	return message
}

func relationFromProto(m *sinkv1.Relation) (*core.Relation, *FieldError) {
	if len(m.GetColumns()) > core.ColumnsMax {
		return nil, broken("columns", "more than %d", core.ColumnsMax)
	}
	if m.GetTableName() == "" {
		return nil, broken("table_name", problemMissing)
	}
	r := &core.Relation{
		OID: m.GetRelationOid(), Schema: m.GetSchemaName(), Name: m.GetTableName(),
		Columns: make([]core.Column, len(m.GetColumns())),
	}
	for _, pair := range identities {
		if pair.number == m.GetReplicaIdentity() {
			r.Identity = pair.letter
		}
	}
	if r.Identity == 0 {
		return nil, broken("replica_identity", "unspecified or unknown")
	}
	for i, c := range m.GetColumns() {
		if c.PrimaryKeyPosition != nil && c.GetPrimaryKeyPosition() == 0 {
			return nil, broken("primary_key_position", "present but 0").underIndex("columns", i)
		}
		r.Columns[i] = core.Column{
			Name: c.GetName(), TypeOID: c.GetTypeOid(), TypeModifier: c.GetTypeModifier(),
			Identity: c.GetIdentity(), PrimaryKeyPosition: c.GetPrimaryKeyPosition(),
			TypeName: c.GetTypeName(), BaseTypeOID: c.GetBaseTypeOid(), ElementTypeOID: c.GetElementTypeOid(),
		}
	}
	return r, nil
}
