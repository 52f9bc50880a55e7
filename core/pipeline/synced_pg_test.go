package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestSyncedSlotHaltsUntilPromotion: the copy of a failover slot on a standby belongs to
// Postgres. It is not read from, and streams once the standby has been promoted.
func TestSyncedSlotHaltsUntilPromotion(t *testing.T) {
	pg := pgtest.Own(t, 17, pgembed.Options{})
	db := pg.Database(t)
	db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t",
		"select pg_create_logical_replication_slot('s', 'pgoutput', false, false, true)")
	standby, err := pg.Standby(t.Context(), map[string]string{"sync_replication_slots": "on", "hot_standby_feedback": "on"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Close()) })
	copied := &pgtest.DB{Server: &pgtest.Server{Server: standby, Major: 17}, Name: db.Name, DSN: standby.DSN(db.Name)}
	require.Eventually(t, func() bool {
		// The copy is worth something once the slot at the primary has passed it.
		db.Exec(t, "insert into t select coalesce(max(id), 0) + 1 from t", "select pg_log_standby_snapshot()",
			"select pg_replication_slot_advance('s', pg_current_wal_lsn())")
		var synced bool
		err := copied.Conn(t).QueryRow(t.Context(),
			"select synced and not temporary and confirmed_flush_lsn is not null from pg_replication_slots where slot_name = 's'").Scan(&synced)
		if err != nil {
			require.ErrorIs(t, err, pgx.ErrNoRows)
		}
		return synced
	}, 4*patience, 200*time.Millisecond)

	sink := sinktest.NewMemory()
	sink.SetStored(core.Checkpoint{Position: confirmed(t, copied, "s"), Epoch: 3})
	halts(t, options(copied, "s", sink), core.HaltSlotSynced)
	require.EqualValues(t, 3, sink.Stored().Epoch, "nothing is claimed")
	halts(t, options(copied, "s", sink), core.HaltSlotSynced)

	require.NoError(t, pg.Stop())
	copied.Exec(t, "select pg_promote()")
	sink.SetStored(core.Checkpoint{Position: confirmed(t, copied, "s"), Epoch: 3})
	r := start(t, options(copied, "s", sink))
	r.streaming(t)
	copied.Exec(t, fmt.Sprintf("insert into t values (%d, 'after')", 1<<20))
	require.True(t, sink.WaitFor(patience, func(list []sinktest.Transaction) bool {
		return len(list) > 0 && string(list[len(list)-1].Changes[0].New.Value(1).Text) == "after"
	}))
	drained(t, r)
}
