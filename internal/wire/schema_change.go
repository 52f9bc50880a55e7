package wire

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// schemaDetails pairs core's words with the contract's numbers.
var schemaDetails = []struct {
	word   string
	number sinkv1.SchemaChangeDetail
}{
	{"columns_added", sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_COLUMN_ADDED},
	{"columns_dropped", sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_COLUMN_DROPPED},
	{"columns_changed", sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_COLUMNS_CHANGED},
	{"type_changed", sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_TYPE_CHANGED},
	{"identity_changed", sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_REPLICA_IDENTITY_CHANGED},
	{"renamed", sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_TABLE_RENAMED},
}

// SchemaChangeUnitToProto tells a new shape between units.
func SchemaChangeUnitToProto(u *core.SchemaChangeUnit) *sinkv1.HandleSchemaChangeRequest {
	return &sinkv1.HandleSchemaChangeRequest{
		Context: callToProto(&u.Call), ExpectedCheckpoint: optionalLSN(u.Expected),
		SchemaChange: schemaChangeToProto(&u.Change),
	}
}

// SchemaChangeUnitFromProto reads it. The error is a *FieldError.
func SchemaChangeUnitFromProto(m *sinkv1.HandleSchemaChangeRequest) (*core.SchemaChangeUnit, error) {
	u := &core.SchemaChangeUnit{}
	if err := readHead(&u.Call, &u.Expected, m.GetContext(), m.ExpectedCheckpoint); err != nil {
		return nil, err
	}
	change, err := schemaChangeFromProto(m.GetSchemaChange())
	if err != nil {
		return nil, err.under("schema_change")
	}
	u.Change = *change
	return u, nil
}

func schemaChangeToProto(c *core.SchemaChange) *sinkv1.SchemaChange {
	m := &sinkv1.SchemaChange{
		Kind:        sinkv1.SchemaChangeKind(c.Kind),
		LostColumns: c.Dropped, NewColumns: c.Added, RetypedColumns: c.Retyped,
	}
	for _, pair := range schemaDetails {
		if pair.word == c.What {
			m.Detail = pair.number
		}
	}
	if c.Before != nil {
		m.Before = relationToProto(c.Before)
	}
	if c.After != nil {
		m.After = relationToProto(c.After)
	}
	return m
}

func schemaChangeFromProto(m *sinkv1.SchemaChange) (*core.SchemaChange, *FieldError) {
	if m == nil {
		return nil, broken("", problemMissing)
	}
	c := &core.SchemaChange{
		Kind:    core.SchemaChangeKind(m.GetKind()),
		Dropped: m.GetLostColumns(), Added: m.GetNewColumns(), Retyped: m.GetRetypedColumns(),
	}
	switch m.GetKind() {
	case sinkv1.SchemaChangeKind_SCHEMA_CHANGE_KIND_ADDITIVE, sinkv1.SchemaChangeKind_SCHEMA_CHANGE_KIND_DESTRUCTIVE:
	default:
		return nil, broken("kind", "unspecified or unknown")
	}
	for _, pair := range schemaDetails {
		if pair.number == m.GetDetail() {
			c.What = pair.word
		}
	}
	if c.What == "" {
		return nil, broken("detail", "unspecified or unknown")
	}
	var err *FieldError
	if m.GetBefore() == nil {
		return nil, broken("before", problemMissing)
	}
	if c.Before, err = relationFromProto(m.GetBefore()); err != nil {
		return nil, err.under("before")
	}
	if m.GetAfter() == nil {
		return nil, broken("after", problemMissing)
	}
	if c.After, err = relationFromProto(m.GetAfter()); err != nil {
		return nil, err.under("after")
	}
	return c, nil
}
