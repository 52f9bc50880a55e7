package assembler

import "github.com/replicant-sidecar/replicant-sidecar/core"

// What a schema change is, in the words of core.SchemaChange.What.
const (
	columnsAdded    = "columns_added"
	columnsDropped  = "columns_dropped"
	columnsChanged  = "columns_changed"
	typeChanged     = "type_changed"
	identityChanged = "identity_changed"
	renamed         = "renamed"
)

// Compare is what changed between two descriptions of one OID; nil where rows in both mean
// the same. It is for descriptions that do not come with the stream.
func Compare(before, after *core.Relation) *core.SchemaChange { return classify(before, after) }

// classify compares two descriptions of one OID. Columns are told apart by name, so a
// renamed column is a lost and a new one. The first fact that holds names the change,
// the lists are always complete; only added columns alone are additive. Nil means that
// rows in both shapes mean the same: columns were reordered at most.
func classify(before, after *core.Relation) *core.SchemaChange {
	c := &core.SchemaChange{Kind: core.SchemaDestructive, Before: before, After: after}
	old := make(map[string]*core.Column, len(before.Columns))
	for i := range before.Columns {
		old[before.Columns[i].Name] = &before.Columns[i]
	}
	identity := before.Identity != after.Identity
	for i := range after.Columns {
		column := &after.Columns[i]
		was := old[column.Name]
		if was == nil {
			c.Added = append(c.Added, column.Name)
			identity = identity || column.Identity && after.Identity != core.IdentityFull
			continue
		}
		delete(old, column.Name)
		if was.TypeOID != column.TypeOID || was.TypeModifier != column.TypeModifier {
			c.Retyped = append(c.Retyped, column.Name)
		}
		identity = identity || was.Identity != column.Identity
	}
	for i := range before.Columns {
		if name := before.Columns[i].Name; old[name] != nil {
			c.Dropped = append(c.Dropped, name)
		}
	}
	switch {
	case len(c.Dropped) > 0 && len(c.Added) > 0:
		c.What = columnsChanged
	case len(c.Dropped) > 0:
		c.What = columnsDropped
	case len(c.Retyped) > 0:
		c.What = typeChanged
	case identity:
		c.What = identityChanged
	case before.Schema != after.Schema || before.Name != after.Name:
		c.What = renamed
	case len(c.Added) > 0:
		c.Kind, c.What = core.SchemaAdditive, columnsAdded
	default:
		return nil
	}
	return c
}

// sameShape is true where nothing that the stream says differs. It is what equal
// ShapeHash values mean, without the hash.
func sameShape(a, b *core.Relation) bool {
	if a.OID != b.OID || a.Schema != b.Schema || a.Name != b.Name || a.Identity != b.Identity || len(a.Columns) != len(b.Columns) {
		return false
	}
	for i := range a.Columns {
		x, y := &a.Columns[i], &b.Columns[i]
		if x.Name != y.Name || x.TypeOID != y.TypeOID || x.TypeModifier != y.TypeModifier || x.Identity != y.Identity {
			return false
		}
	}
	return true
}

// repeatedColumn finds a name that stands twice; columns are mapped by name.
func repeatedColumn(r *core.Relation) (string, bool) {
	seen := make(map[string]bool, len(r.Columns))
	for i := range r.Columns {
		if name := r.Columns[i].Name; seen[name] {
			return name, true
		} else {
			seen[name] = true
		}
	}
	return "", false
}
