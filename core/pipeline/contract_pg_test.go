package pipeline_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/transcript"
)

// with adds capabilities to a memory sink.
func with(capabilities ...core.Capability) *sinktest.Memory {
	sink := sinktest.NewMemory()
	sink.Caps.Set |= core.NewCapabilitySet(capabilities...)
	return sink
}

func journalEnds(t *testing.T, sink *sinktest.Memory, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(sink.Journal()) >= len(want) }, patience, 2*time.Millisecond, "%v", sink.Journal())
	require.Equal(t, want, sink.Journal())
}

func TestMessages(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table t(id int primary key)", "create publication p for table t")
		sink := with(core.CapMessage)
		o := options(db, slot(db), sink)
		o.Source.Messages = true
		r := start(t, o)
		r.streaming(t)
		db.Exec(t, "insert into t values (1)",
			"select pg_logical_emit_message(false, 'p', 'alone')",
			"begin; insert into t values (2); select pg_logical_emit_message(true, 'p', 'inside'); insert into t values (3); commit",
			"select pg_logical_emit_message(false, 'replicant.heartbeat', '')",
			"begin; select pg_logical_emit_message(true, 'p', 'only'); commit")
		journalEnds(t, sink, "tx", "message", "tx", "tx")
		require.Equal(t, "alone", string(sink.Messages()[0].Content))
		log := sink.Transactions()
		require.Equal(t, []core.Op{core.OpInsert, core.OpMessage, core.OpInsert},
			[]core.Op{log[1].Changes[0].Op, log[1].Changes[1].Op, log[1].Changes[2].Op})
		require.Equal(t, "inside", string(log[1].Changes[1].Message.Content))
		require.Len(t, log[2].Changes, 1)
		r.Drain()
		require.NoError(t, r.wait(t))
		again := start(t, o)
		again.streaming(t)
		db.Exec(t, "insert into t values (9)")
		journalEnds(t, sink, "tx", "message", "tx", "tx", "tx")
	})
}

func TestMessagesNeedTheirCapability(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create publication p for all tables")
	o := options(db, slot(db), sinktest.NewMemory())
	o.Source.Messages = true
	halts(t, o, core.HaltMessagesUnsupported)
}

func TestSchemaChangeIsToldAtItsBorder(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t")
		sink := with(core.CapSchemaChange)
		o := options(db, slot(db), sink)
		r := start(t, o)
		r.streaming(t)
		db.Exec(t, "insert into t values (1,'a')", "insert into t values (2,'b')",
			"begin; insert into t values (3,'c'); alter table t add w int; insert into t values (4,'d',1); commit",
			"alter table t drop v", "insert into t values (5,2)")
		journalEnds(t, sink, "tx", "tx", "schema columns_added", "tx", "schema columns_dropped", "tx")
		sink.Decline = true
		db.Exec(t, "alter table t alter w type bigint", "insert into t values (6,2)")
		h, ok := core.AsHalt(r.wait(t))
		require.True(t, ok)
		require.Equal(t, core.HaltSchemaRefused, h.Code)
	})
}

// TestSchemaHaltComesAgain: with shapes kept beside the checkpoint a destructive change
// halts each start until the operator accepts it, also one that happened meanwhile.
func TestSchemaHaltComesAgain(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t")
	sink := with(core.CapResumeState)
	o := options(db, slot(db), sink)
	r := start(t, o)
	r.streaming(t)
	db.Exec(t, "insert into t values (1,'a')")
	journalEnds(t, sink, "tx")
	require.NotEmpty(t, sink.Stored().ResumeState)
	r.Drain()
	require.NoError(t, r.wait(t))
	db.Exec(t, "alter table t drop v", "insert into t values (2)") // while nobody looks
	halts(t, o, core.HaltSchemaDestructive)
	halts(t, o, core.HaltSchemaDestructive)
	journalEnds(t, sink, "tx")
	o.AcceptSchemaChange = true
	accepted := start(t, o)
	journalEnds(t, sink, "tx", "tx")
	accepted.Drain()
	require.NoError(t, accepted.wait(t))
	o.AcceptSchemaChange = false
	after := start(t, o)
	after.streaming(t)
	db.Exec(t, "insert into t values (3)")
	journalEnds(t, sink, "tx", "tx", "tx")
}

// TestAcceptanceIsForThePast: what was accepted is what halted before; a table that
// changes later halts, on its first row and after a reconnect.
func TestAcceptanceIsForThePast(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table t(id int primary key, v text)", "create table u(id int primary key, v text)", "create publication p for all tables")
	sink := with(core.CapResumeState)
	o := options(db, slot(db), sink)
	r := start(t, o)
	r.streaming(t)
	db.Exec(t, "insert into t values (1,'"+secret+"')", "insert into u values (1,'a')")
	journalEnds(t, sink, "tx", "tx")
	r.Drain()
	require.NoError(t, r.wait(t))
	db.Exec(t, "alter table t drop v", "insert into t values (2)")
	var log transcript.Text
	o.AcceptSchemaChange, o.Logger = true, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	accepted := start(t, o)
	journalEnds(t, sink, "tx", "tx", "tx")
	require.Regexp(t, `level=WARN .* is accepted" relation=public\.t change=columns_dropped`, log.String())
	require.NotContains(t, log.String(), secret)
	db.Exec(t, "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '"+o.Source.Slot+"'")
	require.Eventually(t, func() bool { return accepted.Status().Sessions > 1 }, patience, 2*time.Millisecond)
	db.Exec(t, "alter table u drop v", "insert into u values (2)")
	h, ok := core.AsHalt(accepted.wait(t))
	require.True(t, ok)
	require.Equal(t, core.HaltSchemaDestructive, h.Code)
	require.Equal(t, "public.u", h.Relation)
	journalEnds(t, sink, "tx", "tx", "tx")
}

func TestResumeStateThatIsNotOurs(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create publication p for all tables")
	sink := with(core.CapResumeState)
	o := options(db, slot(db), sink)
	r := start(t, o)
	r.streaming(t)
	r.Drain()
	require.NoError(t, r.wait(t))
	stored := sink.Stored()
	stored.ResumeState = []byte("{broken")
	sink.SetStored(stored)
	halts(t, o, core.HaltSinkContract)
}

// TestDrainIsCleanAHundredTimes: fault matrix U20, idle and busy.
func TestDrainIsCleanAHundredTimes(t *testing.T) {
	db := pgtest.Shared(t, 16).Database(t)
	db.Exec(t, "create table t(id int primary key)", "create publication p for table t")
	sink := sinktest.NewMemory()
	o := options(db, slot(db), sink)
	for n := range 100 {
		r := start(t, o)
		r.streaming(t)
		if n%2 == 0 {
			db.Exec(t, fmt.Sprintf("insert into t values (%d)", n))
			require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == n/2+1 }))
		}
		r.Drain()
		require.NoError(t, r.wait(t), "stop %d", n)
		require.Zero(t, r.Status().Replayed+r.Status().Skipped, "stop %d: something was sent again", n)
	}
}
