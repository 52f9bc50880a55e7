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

// sortedKeys are the keys of a map, in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
