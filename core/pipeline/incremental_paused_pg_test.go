package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestStreamGoesOnAmidAPause: with a checkpoint of ours a transaction in pieces, committed
// while no sidecar ran, may have been delivered before. It waits for a look at the tables, which
// a paused copy takes too.
func TestStreamGoesOnAmidAPause(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key, v text)", "insert into a select i, 'v' from generate_series(1, 500) i",
		"create publication p for table a")
	sink := sinktest.NewLib()
	sink.Caps.Kind, sink.Caps.Limits = core.StateMirror, core.SinkLimits{RequestBytes: 64 << 10}
	open, units := make(chan struct{}), 0
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if len(u.Rows) > 0 {
			if units++; units > 2 {
				select {
				case <-open:
				case <-time.After(400 * time.Millisecond): // the pause waits for this unit
				}
			}
		}
		return nil
	}
	o := beside(db, sink)
	o.Store, o.Copy.ChunkRows, o.Copy.Connections, o.GuardInterval = inPostgres(t, db), 50, 1, 20*time.Millisecond
	r := start(t, o)
	require.Eventually(t, func() bool { return len(held(sink, "a")) > 0 }, patience, 5*time.Millisecond)
	require.NoError(t, r.PauseCopy(t.Context(), ""))
	r.Drain()
	require.NoError(t, r.wait(t))

	db.Exec(t, "insert into a select i, repeat('x', 1000) from generate_series(1001, 1200) i")
	r = start(t, o)
	require.Eventually(t, func() bool { return len(sink.Transactions()) == 1 }, patience, 10*time.Millisecond, "%+v", r.Status())
	require.Equal(t, pipeline.CopyPaused, r.Status().Copy.Phase)
	close(open)
	require.NoError(t, r.ResumeCopy(t.Context(), ""))
	copied(t, r, sink)
	alike(t, r, db, sink, "a")
}
