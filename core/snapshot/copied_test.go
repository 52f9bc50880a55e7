package snapshot_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
)

// copied reads a table part by part.
func copied(t *testing.T, pg *pgconn.PgConn, table *snapshot.Table, pages int64) []string {
	t.Helper()
	var rows []string
	for _, part := range table.Parts(pages) {
		batches := snapshot.Batches{Part: part, Preferred: 1 << 10, Limit: 1 << 20}
		require.NoError(t, batches.Read(bounded(t), pg, func(b *snapshot.Batch) error {
			for _, tuple := range b.Rows {
				kinds, values := "", []string(nil)
				for _, v := range tuple.Values() {
					kinds += string(rune(v.Kind))
					values = append(values, string(v.Text))
					require.Contains(t, []core.ValueKind{core.ValueText, core.ValueNull}, v.Kind)
				}
				rows = append(rows, show(kinds, values))
			}
			return nil
		}))
	}
	slices.Sort(rows)
	return rows
}
