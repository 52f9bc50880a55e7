package core

// SchemaChangeKind says whether rows in the old shape still fit.
type SchemaChangeKind uint8

// The two kinds.
const (
	SchemaAdditive SchemaChangeKind = iota + 1
	SchemaDestructive
)

// String names the kind.
func (k SchemaChangeKind) String() string {
	if k == SchemaAdditive {
		return "additive"
	}
	return "destructive"
}

// SchemaChange is a relation that is described anew with another shape. Names of
// columns and types may be shown to people; there is no row value in it.
type SchemaChange struct {
	Kind SchemaChangeKind
	// What is one of columns_added, columns_dropped, columns_changed (lost and new names
	// in one change), type_changed, identity_changed, renamed.
	What          string
	Before, After *Relation
	Added         []string
	Dropped       []string
	Retyped       []string
}
