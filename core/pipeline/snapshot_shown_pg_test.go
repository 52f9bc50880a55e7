package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestCopyBesideShowsItsCost: estimates, since when, how long the snapshot of a table without
// a key holds back the source's clean-up, and the WAL that is held; and nothing of the cost
// at the end.
func TestCopyBesideShowsItsCost(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		db := pg.Database(t)
		db.Exec(t, twoTables, "analyze a")
		sink := sinktest.NewMemory()
		open := gated(sink, 1)
		o := beside(db, sink)
		o.GuardInterval = 20 * time.Millisecond
		began := time.Now()
		r := start(t, o)
		require.Eventually(t, func() bool {
			db.Exec(t, "create table if not exists other(id int)", "insert into other values (1)")
			c := r.Status().Copy
			return c != nil && c.XminAge > 0 && c.HeldBytes > 0
		}, patience, 5*time.Millisecond)
		c := *r.Status().Copy
		require.WithinRange(t, c.Since, began, time.Now())
		require.Equal(t, "incremental", c.Kind)
		estimates := map[string]int64{}
		for _, table := range c.Tables {
			estimates[table.Table] = table.EstimatedRows
			require.Positive(t, table.SourceBytes)
		}
		require.Equal(t, map[string]int64{"a": 1000, "b": -1}, estimates)
		open()
		completedTimes(t, r, sink, 1)
		require.Eventually(t, func() bool { return r.Status().Copy.Phase == pipeline.CopyDone }, patience, 5*time.Millisecond)
		require.Zero(t, r.Status().Copy.XminAge)
		require.Zero(t, r.Status().Copy.HeldBytes)
		require.Equal(t, c.Since, r.Status().Copy.Since)
	})
}
