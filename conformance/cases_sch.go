package conformance

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func sch(id, title, reason, cause string, profile Profile, needs Need, run func(*Trial), rules ...string) Case {
	c := Case{
		ID: id, Level: Must, Profile: profile, Needs: NeedProbe | needs, Rules: rules, Title: title, Reason: reason, Cause: cause, Run: run,
		Expect: "the rows in the new shape, or SCHEMA_DECLINED and nothing stored",
	}
	if profile == Schema {
		c.Capabilities = []sinkv1.Capability{sinkv1.Capability_CAPABILITY_SCHEMA_CHANGE}
	}
	return c
}

var schCases = []Case{
	sch("SCH-001", "an added column: told, told again, and used", "a repeat is lawful, and must be harmless",
		"a DDL that fails the second time", Schema, 0, schAdded, "S-801", "S-802"),
	sch("SCH-002", "a column is dropped, renamed, widened; a table is renamed", "what the new shape keeps must be kept",
		"the table is made anew", Schema, 0, schDestructive, "S-804", "S-803"),
	sch("SCH-003", "a shape that the sink cannot take, and rows of it", "a decline halts; a silent one loses a column",
		"OK for what is not understood", Schema, 0, schDeclined, "S-803"),
	sch("SCH-004", "a new column that simply arrives in a unit", "without SCHEMA_CHANGE nobody tells",
		"unknown columns are ignored", Core, 0, schArrives, "S-803", "V-109"),
	sch("SCH-005", "the same columns in another order; after a restart too", "the order is the catalog's, and changes",
		"a layout that is kept between requests", Core, 0, schOrder, "V-109"),
}

// schemaChange tells two shapes apart as the stream does.
func schemaChange(before, after *shape) *sinkv1.SchemaChange {
	c := &sinkv1.SchemaChange{Before: before.relation, After: after.relation}
	for _, name := range before.columns() {
		if !slices.Contains(after.columns(), name) {
			c.LostColumns = append(c.LostColumns, name)
		}
	}
	for i, name := range after.columns() {
		at := slices.Index(before.columns(), name)
		switch {
		case at < 0:
			c.NewColumns = append(c.NewColumns, name)
		case before.relation.GetColumns()[at].GetTypeOid() != after.relation.GetColumns()[i].GetTypeOid():
			c.RetypedColumns = append(c.RetypedColumns, name)
		}
	}
	c.Kind = sinkv1.SchemaChangeKind_SCHEMA_CHANGE_KIND_DESTRUCTIVE
	switch {
	case len(c.LostColumns) > 0 && len(c.NewColumns) > 0:
		c.Detail = sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_COLUMNS_CHANGED
	case len(c.LostColumns) > 0:
		c.Detail = sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_COLUMN_DROPPED
	case len(c.RetypedColumns) > 0:
		c.Detail = sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_TYPE_CHANGED
	case before.name() != after.name():
		c.Detail = sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_TABLE_RENAMED
	default:
		c.Kind = sinkv1.SchemaChangeKind_SCHEMA_CHANGE_KIND_ADDITIVE
		c.Detail = sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_COLUMN_ADDED
	}
	return c
}

// reshape does to the model what a schema change does: lost columns go, a renamed table
// moves.
func (m *model) reshape(before, after *shape) {
	t := m.tables[before.name()]
	if t == nil {
		return
	}
	delete(m.tables, before.name())
	m.tables[after.name()] = t
	t.columns = after.columns()
	for _, row := range t.rows {
		for _, name := range before.columns() {
			if !slices.Contains(after.columns(), name) {
				delete(row.known, name)
			}
		}
	}
}

// tell tells a schema change once.
func (s *stream) tell(ctx context.Context, before, after *shape) error {
	ctx, cancel := s.t.deadline(ctx)
	defer cancel()
	_, err := s.t.link.sink.HandleSchemaChange(ctx, &sinkv1.HandleSchemaChangeRequest{
		Context: s.context(), ExpectedCheckpoint: s.durable, SchemaChange: schemaChange(before, after),
	})
	return err
}

// takes tells a schema change, and reports whether the sink takes it. A sink that
// declines must keep what it has.
func (s *stream) takes(before, after *shape, what string) bool {
	err := s.tell(s.t.ctx, before, after)
	if err == nil {
		s.t.model.reshape(before, after)
		return true
	}
	s.t.mustRefuse("HandleSchemaChange of "+what, err, codes.FailedPrecondition, "SCHEMA_DECLINED")
	s.t.note("declines: %s", what)
	s.t.verify("after " + what + " was declined")
	return false
}

func schAdded(t *Trial) {
	s := t.stream()
	narrow := t.table("basic", "id int4 key", "name text")
	s.deliver(s.tx(insert(narrow, 1, "a")))
	wide := t.table("basic", "id int4 key", "name text", "added text")
	for range 3 {
		if !s.takes(narrow, wide, "an added column") {
			t.failed("an added column is declined")
		}
		t.verify("after an added column was told")
	}
	s.deliver(s.tx(insert(wide, 2, "b", "new"), update(wide, 1, "a", "now")))
	t.verify("after rows with an added column")
	s.takes(narrow, wide, "an added column that is told late")
	t.verify("after it was told again")
}

func schDestructive(t *Trial) {
	s := t.stream()
	before := t.table("basic", "id int4 key", "name text", "note text")
	s.deliver(s.tx(insert(before, 1, "a", "b"), insert(before, 2, "c", null)))
	steps := []struct {
		what  string
		after func() *shape
		row   []any
	}{
		{"a column that is dropped", func() *shape { return t.table("basic", "id int4 key", "name text") }, []any{3, "x"}},
		{"a column that is renamed", func() *shape { return t.table("basic", "id int4 key", "title text") }, []any{4, "x"}},
		{"a column that is widened", func() *shape { return t.table("basic", "id int8 key", "title text") }, []any{5, "x"}},
	}
	now := before
	for _, step := range steps {
		after := step.after()
		if !s.takes(now, after, step.what) {
			t.shapes[now.name()] = now
			continue
		}
		t.verify("after " + step.what)
		s.deliver(s.tx(insert(after, step.row...)))
		t.verify("after a row behind " + step.what)
		now = after
	}
	renamed := newShape(now.relation.GetRelationOid(), t.schema, "renamed", now.relation.GetReplicaIdentity())
	renamed.relation.Columns, renamed.key = now.relation.GetColumns(), now.key
	t.shapes[renamed.name()] = renamed.hashed()
	if s.takes(now, renamed, "a table that is renamed") {
		t.verify("after a table was renamed")
	}
}

func schDeclined(t *Trial) {
	s := t.stream()
	before := t.table("basic", "id int4 key", "name text")
	s.deliver(s.tx(insert(before, 1, "a")))
	after := t.table("basic", "id int4 key", "name text", "strange unmappable")
	if s.takes(before, after, "a column of a type that nobody knows") {
		s.deliver(s.tx(insert(after, 2, "b", "strange text")))
		t.verify("after a row with a column of a type that nobody knows")
		return
	}
	u := s.unit(s.tx(insert(after, 2, "b", "strange text")))
	s.refused(u, codes.FailedPrecondition, "SCHEMA_DECLINED")
	t.verify("after rows of a shape that was declined")
}

func schArrives(t *Trial) {
	s := t.stream()
	before := t.table("basic", "id int4 key", "name text")
	s.deliver(s.tx(insert(before, 1, "a")))
	after := t.table("basic", "id int4 key", "name text", "added text")
	u := s.unit(s.tx(insert(after, 2, "b", "new"), update(after, 1, "a", "now")))
	counts := t.model.counts
	out, err := s.send(t.ctx, u)
	if err != nil {
		t.mustRefuse(u.called+" with a new column", err, codes.FailedPrecondition, "SCHEMA_DECLINED")
		t.note("declines new columns")
		t.verify("after a new column was declined")
		return
	}
	s.accept(u, out, counts)
	t.verify("after a new column arrived in a unit")
}

func schOrder(t *Trial) {
	s := t.stream()
	one := t.table("basic", "id int4 key", "name text", "note text")
	s.deliver(s.tx(insert(one, 1, "name", "note")))
	two := t.table("basic", "note text", "id int4 key", "name text")
	s.deliver(s.tx(insert(two, "note", 2, "name"), update(two, kept, 1, "name 1")))
	t.verify("after the columns came in another order")
	three := t.table("basic", "name text", "note text", "id int4 key")
	if s.batches() {
		s.deliver(s.tx(insert(three, "name", "note", 3)), s.tx(insert(one, 4, "name", "note")))
		t.verify("after two orders in one batch")
	}
	if t.session.lifecycle() {
		t.bounce()
		s.claim()
	}
	s.deliver(s.tx(insert(three, "name", "note", 5), remove(three, 1)))
	t.verify("after the columns came in a third order")
}
