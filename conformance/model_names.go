package conformance

import (
	"cmp"
	"maps"
	"slices"
)

// sortedNames are the tables of a model, in order.
func sortedNames(tables map[tableName]*modelTable) []tableName {
	return slices.SortedFunc(maps.Keys(tables), func(a, b tableName) int {
		return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.table, b.table))
	})
}
