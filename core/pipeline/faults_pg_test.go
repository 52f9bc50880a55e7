package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

const secret = "s3cret-value"

// halts runs a pipeline that must halt with a code, and checks what every halt owes: an
// exit code that a supervisor understands, an explanation, and no row value.
func halts(t *testing.T, o pipeline.Options, code core.HaltCode) {
	t.Helper()
	r := start(t, o)
	err := r.wait(t)
	h, ok := core.AsHalt(err)
	require.True(t, ok, "want halt %s, got %v", code, err)
	require.Equal(t, code, h.Code, "%v", err)
	require.NotContains(t, err.Error(), secret)
	text, known := core.Explain(code)
	require.True(t, known)
	require.Equal(t, text.Exit, core.ExitCode(err))
	require.Equal(t, pipeline.StateHalted, r.Status().State)
	require.Equal(t, h, r.Status().LastHalt)
}

// leavesNothing looks at the server after a halt: no connection of ours, no lock, and the
// slot free for who comes next.
func leavesNothing(t *testing.T, db *pgtest.DB, o pipeline.Options) {
	t.Helper()
	require.NotEmpty(t, o.Source.ApplicationName)
	conn := db.Conn(t)
	require.Eventually(t, func() bool {
		var sessions, busy int
		require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = $1", o.Source.ApplicationName).Scan(&sessions))
		require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from pg_replication_slots where slot_name = $1 and active", o.Source.Slot).Scan(&busy))
		return sessions == 0 && busy == 0
	}, patience, 5*time.Millisecond, "connections or the slot are still held")
}

func TestSourceFaults(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t")
		run := func(name string, code core.HaltCode, spoil func(t *testing.T, o *pipeline.Options, sink *sinktest.Memory)) {
			t.Run(name, func(t *testing.T) {
				sink := sinktest.NewMemory()
				o := options(db, slot(db), sink)
				o.Source.ApplicationName = "halting " + o.Source.Slot
				spoil(t, &o, sink)
				halts(t, o, code)
				leavesNothing(t, db, o)
			})
		}
		run("missing publication", core.HaltPublicationMissing, func(t *testing.T, o *pipeline.Options, _ *sinktest.Memory) {
			o.Source.Publications = []string{"p", "no such"}
		})
		run("slot of another plugin", core.HaltSlotPlugin, func(t *testing.T, o *pipeline.Options, _ *sinktest.Memory) {
			db.Exec(t, fmt.Sprintf("select pg_create_logical_replication_slot('%s', 'test_decoding')", o.Source.Slot))
		})
		run("physical slot", core.HaltSlotPlugin, func(t *testing.T, o *pipeline.Options, _ *sinktest.Memory) {
			db.Exec(t, fmt.Sprintf("select pg_create_physical_replication_slot('%s')", o.Source.Slot))
			t.Cleanup(func() { db.Exec(t, fmt.Sprintf("select pg_drop_replication_slot('%s')", o.Source.Slot)) })
		})
		run("slot of another database", core.HaltSlotDatabase, func(t *testing.T, o *pipeline.Options, _ *sinktest.Memory) {
			pg.Database(t).Exec(t, fmt.Sprintf("select pg_create_logical_replication_slot('%s', 'pgoutput')", o.Source.Slot))
		})
		run("slot beside an empty checkpoint", core.HaltCheckpointMissing, func(t *testing.T, o *pipeline.Options, _ *sinktest.Memory) {
			db.Exec(t, fmt.Sprintf("select pg_create_logical_replication_slot('%s', 'pgoutput')", o.Source.Slot))
		})
		run("checkpoint without its slot", core.HaltSlotMissing, func(t *testing.T, _ *pipeline.Options, sink *sinktest.Memory) {
			sink.SetStored(core.Checkpoint{Position: 1 << 20, Epoch: 4})
		})
		run("empty mirror without a word", core.HaltGoForwardRequired, func(t *testing.T, o *pipeline.Options, _ *sinktest.Memory) {
			o.GoForwardOnly = false
		})
		run("slot ahead of the checkpoint", core.HaltSlotAhead, func(t *testing.T, o *pipeline.Options, sink *sinktest.Memory) {
			db.Exec(t, fmt.Sprintf("select pg_create_logical_replication_slot('%s', 'pgoutput')", o.Source.Slot))
			sink.SetStored(core.Checkpoint{Position: confirmed(t, db, o.Source.Slot) - 1, Epoch: 4})
		})
		run("source behind the checkpoint", core.HaltSourceBehind, func(t *testing.T, o *pipeline.Options, sink *sinktest.Memory) {
			db.Exec(t, fmt.Sprintf("select pg_create_logical_replication_slot('%s', 'pgoutput')", o.Source.Slot))
			sink.SetStored(core.Checkpoint{Position: confirmed(t, db, o.Source.Slot) + 1<<40, Epoch: 4})
		})
		run("role without the right to replicate", core.HaltSourceRights, func(t *testing.T, o *pipeline.Options, _ *sinktest.Memory) {
			role := "r_" + o.Source.Slot
			db.Exec(t, "create role "+role+" login")
			t.Cleanup(func() { db.Exec(t, "drop role "+role) })
			o.Source.DSN = strings.Replace(o.Source.DSN, "postgres@", role+"@", 1)
			require.Contains(t, o.Source.DSN, role)
		})
		if pg.Major >= 15 {
			run("slot with two_phase", core.HaltSlotTwoPhase, func(t *testing.T, o *pipeline.Options, _ *sinktest.Memory) {
				db.Exec(t, fmt.Sprintf("select pg_create_logical_replication_slot('%s', 'pgoutput', false, true)", o.Source.Slot))
			})
		}
	})
}

func TestWrongWALLevel(t *testing.T) {
	pg := pgtest.Own(t, 16, pgembed.Options{Settings: map[string]string{"wal_level": "replica"}})
	db := pg.Database(t)
	db.Exec(t, "create table t(id int primary key)", "create publication p for table t")
	halts(t, options(db, "s", sinktest.NewMemory()), core.HaltWALLevel)
}

func TestInvalidatedSlot(t *testing.T) {
	for _, major := range []int{14, 17, 18} {
		pg := pgtest.Own(t, major, pgembed.Options{Settings: map[string]string{
			"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB",
		}})
		db := pg.Database(t)
		db.Exec(t, "create table t(id int primary key)", "create publication p for table t",
			"select pg_create_logical_replication_slot('s', 'pgoutput')")
		sink := sinktest.NewMemory()
		sink.SetStored(core.Checkpoint{Position: confirmed(t, db, "s"), Epoch: 1})
		for range 4 {
			db.Exec(t, "select pg_logical_emit_message(false, 'x', repeat('y', 1000000))", "select pg_switch_wal()", "checkpoint")
		}
		halts(t, options(db, "s", sink), core.HaltSlotInvalidated)
	}
}

// TestStandby: the second sidecar on a slot waits, claims nothing, and takes over when
// the first is gone.
func TestStandby(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t")
		sink := sinktest.NewMemory()
		o := options(db, slot(db), sink)
		first := start(t, o)
		first.streaming(t)
		epoch := sink.Stored().Epoch
		second := start(t, o)
		require.Eventually(t, func() bool { return second.Status().State == pipeline.StateStandby }, patience, 5*time.Millisecond)
		require.NotZero(t, second.Status().StandbyHolder)
		db.Exec(t, "insert into t values (1,'a')")
		require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 1 }))
		require.Equal(t, epoch, sink.Stored().Epoch, "a standby must not claim")
		first.cancel()
		require.ErrorIs(t, first.wait(t), pipeline.ErrAbort)
		second.streaming(t)
		require.Equal(t, epoch+1, sink.Stored().Epoch)
		db.Exec(t, "insert into t values (2,'b')")
		require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 2 }))
	})
}

// TestSinkBreaches: what a sink may not do halts, and Postgres is told nothing of it.
func TestSinkBreaches(t *testing.T) {
	pg := pgtest.Shared(t, 17)
	db := pg.Database(t)
	db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t")
	for name, row := range map[string]struct {
		spoil func(sink *sinktest.Memory) core.Sink
		want  core.HaltCode
	}{
		"returns another LSN":           {func(m *sinktest.Memory) core.Sink { return &liar{Memory: m} }, core.HaltSinkContract},
		"no Checkpoint":                 {without(core.CapCheckpoint), core.HaltInvalidSink},
		"advertises what it has not":    {func(m *sinktest.Memory) core.Sink { return boastful{m} }, core.HaltInvalidSink},
		"refuses the unit":              {refusing(&core.Refusal{Reason: core.ReasonUnitRejected, Text: secret}), core.HaltSinkRejected},
		"cannot represent a value":      {refusing(&core.Refusal{Reason: core.ReasonValueUnrepresentable, Text: secret}), core.HaltValueUnrepresentable},
		"fails on the same unit thrice": {refusing(fmt.Errorf("driver says %s", secret)), core.HaltSinkFailed},
		"no answer five times":          {refusing(context.DeadlineExceeded), core.HaltSinkUnknown},
		"another source":                {refusing(&core.Refusal{Reason: core.ReasonSourceMismatch}), core.HaltSourceMismatch},
		"another epoch":                 {refusing(&core.Refusal{Reason: core.ReasonFenced}), core.HaltFenced},
		"one row too large": {func(m *sinktest.Memory) core.Sink {
			m.Caps.Limits = core.SinkLimits{RequestBytes: 2000}
			return m
		}, core.HaltValueTooLarge},
		"transaction too large": {func(m *sinktest.Memory) core.Sink {
			m.Caps.Limits = core.SinkLimits{RequestBytes: 8000}
			m.Caps.Set = core.NewCapabilitySet(core.CapCheckpoint, core.CapTransaction)
			return m
		}, core.HaltTransactionTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			sink := sinktest.NewMemory()
			var log strings.Builder
			var mu sync.Mutex
			o := options(db, slot(db), row.spoil(sink))
			o.Source.ApplicationName = "halting " + o.Source.Slot
			o.Logger = slog.New(slog.NewTextHandler(locked{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelInfo}))
			r := start(t, o)
			require.Eventually(t, func() bool {
				state := r.Status().State
				return state == pipeline.StateStreaming || state == pipeline.StateHalted
			}, patience, time.Millisecond)
			base := sink.Stored().Position
			db.Exec(t, "truncate t", "insert into t select i, repeat('"+secret+"', 400) from generate_series(1,3) i")
			err := r.wait(t)
			h, ok := core.AsHalt(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, row.want, h.Code, "%v", err)
			require.NotContains(t, err.Error(), secret)
			mu.Lock()
			require.NotContains(t, log.String(), secret)
			mu.Unlock()
			leavesNothing(t, db, o)
			if base != 0 {
				require.LessOrEqual(t, confirmed(t, db, o.Source.Slot), sink.Stored().Position, "told more than is stored")
			}
		})
	}
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// liar stores what it should and answers another position.
type liar struct{ *sinktest.Memory }

func (l *liar) HandleBatch(ctx context.Context, u *core.Unit) (core.Ack, error) {
	ack, err := l.Memory.HandleBatch(ctx, u)
	if len(u.Transactions) > 0 {
		ack.Checkpoint++
	}
	return ack, err
}

// boastful has no methods beyond the first two.
type boastful struct{ m *sinktest.Memory }

func (b boastful) Capabilities(ctx context.Context) (core.Capabilities, error) {
	return b.m.Capabilities(ctx)
}

func (b boastful) Checkpoint(ctx context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	return b.m.Checkpoint(ctx, r)
}

func without(c core.Capability) func(*sinktest.Memory) core.Sink {
	return func(m *sinktest.Memory) core.Sink {
		m.Caps.Set &^= core.NewCapabilitySet(c)
		return m
	}
}

// refusing answers every unit that holds transactions with err.
func refusing(err error) func(*sinktest.Memory) core.Sink {
	return func(m *sinktest.Memory) core.Sink { return &refuser{m, err} }
}

type refuser struct {
	*sinktest.Memory
	err error
}

func (r *refuser) HandleBatch(ctx context.Context, u *core.Unit) (core.Ack, error) {
	if len(u.Transactions) > 0 {
		return core.Ack{}, r.err
	}
	return r.Memory.HandleBatch(ctx, u)
}
