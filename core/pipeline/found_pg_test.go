package pipeline_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestRowThatEntersTheFilter: an update that brings a row into the publication's row
// filter comes as an insert whose untouched TOAST value is not sent.
func TestRowThatEntersTheFilter(t *testing.T) {
	for _, major := range []int{15, 18} {
		db := pgtest.Shared(t, major).Database(t)
		db.Exec(t, "create table t(id int, s text, v text, primary key (id, s))", "alter table t alter v set storage external",
			"create publication p for table t where (s = 'x')")
		sink := sinktest.NewMemory()
		r := start(t, options(db, slot(db), sink))
		r.streaming(t)
		db.Exec(t, "insert into t values (1, 'y', repeat('z', 10000))", "update t set s = 'x'")
		require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 1 }), "%v", r.Status().Reason)
		change := sink.Transactions()[0].Changes[0]
		require.Equal(t, core.OpInsert, change.Op)
		require.Equal(t, "ttu", string(change.New.Kinds()))
	}
}

// shapeless is a sink without schema changes and resume state.
type shapeless struct{ m *sinktest.Memory }

func (f shapeless) Capabilities(ctx context.Context) (core.Capabilities, error) {
	return f.m.Capabilities(ctx)
}

func (f shapeless) Checkpoint(ctx context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	return f.m.Checkpoint(ctx, r)
}

func (f shapeless) HandleBatch(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return f.m.HandleBatch(ctx, u)
}

func (f shapeless) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return f.m.HandleTransaction(ctx, u)
}

func (f shapeless) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	return f.m.HandleLargeTransaction(ctx, l)
}

// TestShapeChangedOverAReconnect: a lost connection must not make a run forget the shapes
// it has seen.
func TestShapeChangedOverAReconnect(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t")
	sink := sinktest.NewMemory()
	o := options(db, slot(db), shapeless{sink})
	r := start(t, o)
	r.streaming(t)
	db.Exec(t, "insert into t values (1, 'a')")
	require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 1 }))
	db.Exec(t, "alter table t drop v",
		"select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '"+o.Source.Slot+"'",
		"insert into t values (2)")
	h, ok := core.AsHalt(r.wait(t))
	require.True(t, ok)
	require.Equal(t, core.HaltSchemaDestructive, h.Code)
	require.Len(t, sink.Transactions(), 1)
}

// TestDrainDoesNotSwallowAHalt: what would have halted the run halts it while draining.
func TestDrainDoesNotSwallowAHalt(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table t(id int primary key)", "create publication p for table t")
	for name, row := range map[string]struct {
		answer func() error
		want   core.HaltCode
	}{
		"fenced":  {func() error { return &core.Refusal{Reason: core.ReasonFenced} }, core.HaltFenced},
		"refused": {func() error { return &core.Refusal{Reason: core.ReasonUnitRejected} }, core.HaltSinkRejected},
		"panic":   {func() error { panic("a row value") }, core.HaltPanic},
		"unknown": {func() error { return context.DeadlineExceeded }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sink := sinktest.NewMemory()
			entered, leave := make(chan struct{}), make(chan struct{})
			base := true
			sink.Before = func(core.Call, core.LSN) error {
				if base {
					base = false
					return nil
				}
				close(entered)
				<-leave
				return row.answer()
			}
			r := start(t, options(db, slot(db), sink))
			r.streaming(t)
			db.Exec(t, "truncate t")
			<-entered
			r.Drain()
			time.Sleep(50 * time.Millisecond)
			close(leave)
			err := r.wait(t)
			if row.want == "" {
				require.ErrorIs(t, err, pipeline.ErrLeftOpen)
				return
			}
			h, ok := core.AsHalt(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, row.want, h.Code)
			require.NotContains(t, err.Error(), "row value")
		})
	}
}

// TestLargeTransactionStoredBetweenReadAndClaim: a writer of an older epoch finishes while
// we claim; the transaction that the stream then sends again is covered.
func TestLargeTransactionStoredBetweenReadAndClaim(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table t(id int, v text)", "create publication p for table t")
	memory := sinktest.NewMemory()
	memory.Caps.Limits = core.SinkLimits{RequestBytes: 20_000, PreferredBytes: 10_000}
	sink := &stale{Memory: memory}
	o := options(db, slot(db), sink)
	r := start(t, o)
	r.streaming(t)
	before := memory.Stored().Position
	memory.After = func(core.Call, core.LSN) error {
		r.cancel() // stored, and nobody hears of it
		return context.Canceled
	}
	db.Exec(t, "insert into t select i, '"+strings.Repeat("x", 500)+"' from generate_series(1, 200) i")
	require.Error(t, r.wait(t))
	memory.After = nil
	require.Greater(t, memory.Stored().Position, before)
	sink.at = before // what a read answers that does not wait for the writer
	again := start(t, o)
	again.streaming(t)
	db.Exec(t, "insert into t values (0, 'after')")
	require.True(t, memory.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 2 }), again.Status().Reason)
	require.Len(t, memory.Transactions(), 2)
}

// stale answers one read with an old position.
type stale struct {
	*sinktest.Memory
	at core.LSN
}

func (l *stale) Checkpoint(ctx context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	c, err := l.Memory.Checkpoint(ctx, r)
	if r.Claim == nil && l.at != 0 {
		c.Position, l.at = l.at, 0
	}
	return c, err
}
