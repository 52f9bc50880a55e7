package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// restart ends the streaming pipeline as a crash would and starts it again.
func (p *pair) restart(streaming bool) {
	p.t.Helper()
	p.stream.cancel()
	require.ErrorIs(p.t, p.stream.wait(p.t), pipeline.ErrAbort)
	noFiles(p.t, p.spillDir)
	o := p.options
	o.Source.Streaming = streaming
	p.stream = start(p.t, o)
	p.stream.streaming(p.t)
}

// Ended in the middle of transactions in progress, each start gets them again from the
// server, streamed or whole as it may be, and each takes effect once.
func TestStreamingRestartsInTheMiddle(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		tables(t, db)
		p := newPair(t, db, "")
		a, b := p.client(), p.client()
		a.do("begin", rows("t", 1, 100), "savepoint s", rows("t", 200, 50))
		p.sent()
		b.do("begin", rows("u", 1, 100))
		p.sent()
		p.restart(true)
		a.do("rollback to s", rows("t", 400, 50))
		p.sent()
		b.do("commit")
		p.restart(false)
		b.do("begin", rows("u", 1000, 100))
		a.do("commit")
		p.restart(true)
		p.sent()
		b.do("savepoint s", rows("u", 2000, 100), "rollback to s", "commit")
		// The connection alone.
		a.do("begin", rows("t", 1000, 100))
		p.sent()
		sessions := p.stream.Status().Sessions
		db.Exec(t, fmt.Sprintf("select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '%s'", p.options.Source.Slot))
		require.Eventually(t, func() bool { return p.stream.Status().Sessions > sessions }, patience, 2*time.Millisecond)
		a.do(rows("t", 2000, 100), "commit")
		p.equal()
		p.stream.Drain()
		require.NoError(t, p.stream.wait(t))
		require.Equal(t, p.streamSink.Stored().Position, confirmed(t, db, p.options.Source.Slot))
	})
}

// X03: a Stream Commit moves the slot like any other.
func TestX03StreamedCommitsAreConfirmed(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		tables(t, db)
		sink := sinktest.NewMemory()
		o := streamed(options(db, slot(db), sink), t.TempDir(), "")
		o.Source.StatusInterval = 200 * time.Millisecond
		r := start(t, o)
		r.streaming(t)
		for i := range 10 {
			end := "commit"
			if i%3 == 2 {
				end = "rollback"
			}
			db.Exec(t, "begin; "+rows("t", 1+i*10_000, 1000)+"; "+end)
		}
		require.True(t, sink.WaitFor(2*patience, func(l []sinktest.Transaction) bool { return len(l) == 7 }))
		log := sink.Transactions()
		for i, number := range []int{0, 1, 3, 4, 6, 7, 9} {
			require.Len(t, log[i].Changes, 1000)
			require.Equal(t, strconv.Itoa(1+number*10_000), string(log[i].Changes[0].New.Value(0).Text))
		}
		require.Eventually(t, func() bool { return confirmed(t, db, o.Source.Slot) >= log[6].EndLSN }, patience, 20*time.Millisecond)
		require.Eventually(t, func() bool { return r.Status().Streamed == 7 }, patience, 20*time.Millisecond)
	})
}

// counting discards rows, and checks their order.
type counting struct {
	*sinktest.Memory
	rows  atomic.Int64
	pause time.Duration
}

func (c *counting) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	begin, next := l.Begin(), int64(0)
	for {
		f, err := l.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return core.Ack{}, io.ErrUnexpectedEOF
		case err != nil:
			return core.Ack{}, err
		case f.Commit != nil:
			c.rows.Store(next)
			return c.Memory.HandleBatch(ctx, &core.Unit{Call: begin.Call, Expected: begin.Expected, Checkpoint: f.Commit.Checkpoint})
		}
		for i := range f.Changes {
			next++
			if got := string(f.Changes[i].New.Value(0).Text); got != strconv.FormatInt(next, 10) {
				return core.Ack{}, fmt.Errorf("row %s where %d should be", got, next)
			}
		}
		time.Sleep(c.pause)
	}
}

// A streamed transaction of 100,000 rows and 60 MB passes in little memory: what is held,
// what is read back, and the pieces on their way.
func TestLargeStreamedTransactionInLittleMemory(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		const n = 100_000
		db := pg.Database(t)
		tables(t, db)
		sink := &counting{Memory: sinktest.NewMemory()}
		sink.Caps.Limits = core.SinkLimits{RequestBytes: 256 << 10, PreferredBytes: 64 << 10}
		o := streamed(options(db, slot(db), sink), t.TempDir(), "")
		o.Spill.Resident = 1 << 20
		r := start(t, o)
		r.streaming(t)
		runtime.GC()
		before, peak := heap(), atomic.Uint64{}
		watching, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for watching.Err() == nil {
				peak.Store(max(peak.Load(), heap()))
				time.Sleep(5 * time.Millisecond)
			}
		}()
		spilled := atomic.Int64{}
		go func() {
			for watching.Err() == nil {
				spilled.Store(max(spilled.Load(), r.Status().Spilled))
				time.Sleep(5 * time.Millisecond)
			}
		}()
		db.Exec(t, fmt.Sprintf("insert into t select i, repeat('x', 500) from generate_series(1, %d) i", n), "insert into last values (default)")
		require.True(t, sink.WaitFor(3*patience, func(l []sinktest.Transaction) bool { return len(l) == 1 }), "%v", r.Status().Reason)
		stop()
		require.EqualValues(t, n, sink.rows.Load())
		require.Eventually(t, func() bool { return r.Status().Streamed == 1 && r.Status().Spilled == 0 && r.Status().InProgress == 0 }, patience, time.Millisecond)
		require.Greater(t, spilled.Load(), int64(30<<20), "the status shows what is spilled")
		grown := int64(peak.Load()) - int64(before)
		t.Logf("live heap grew by at most %d KiB", grown>>10)
		require.Less(t, grown, int64(12<<20))
		noFiles(t, o.Spill.Dir)
	})
}

// heap is what was alive at the last collection, in bytes. Garbage that waits for the next
// one depends on the machine's pace and is left out.
func heap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// Too little room halts, leaves nothing behind and confirms nothing of it; with room it
// goes on.
func TestSpillBoundHalts(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		tables(t, db)
		sink := sinktest.NewMemory()
		o := streamed(options(db, slot(db), sink), t.TempDir(), "")
		o.Spill.Max = 300_000
		first := start(t, o)
		first.streaming(t)
		db.Exec(t, "insert into t values (1, 'before')")
		require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 1 }))
		db.Exec(t, "insert into u select i, repeat('"+secret+"', 100) from generate_series(1, 1000) i")
		require.Error(t, first.wait(t))
		halts(t, o, core.HaltSpillExhausted)
		noFiles(t, o.Spill.Dir)
		require.Len(t, sink.Transactions(), 1)
		require.LessOrEqual(t, confirmed(t, db, o.Source.Slot), sink.Stored().Position)
		o.Spill.Max = 100 << 20
		r := start(t, o)
		require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 2 && len(l[1].Changes) == 1000 }))
		r.Drain()
		require.NoError(t, r.wait(t))
	})
}

// A folder that cannot be used is found before the slot is touched.
func TestSpillFolderIsCheckedAtTheStart(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	tables(t, db)
	file := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for dir, code := range map[string]core.HaltCode{"": core.HaltConfigInvalid, file: core.HaltSpillFailed} {
		o := streamed(options(db, slot(db), sinktest.NewMemory()), dir, "")
		_, err := pipeline.New(o)
		halt, ok := core.AsHalt(err)
		require.True(t, ok)
		require.Equal(t, code, halt.Code)
	}
}

// A drain ends at once though transactions are in progress, and in the middle of one that
// is being taken in pieces; the next start has it whole.
func TestDrainWithTransactionsInProgress(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		tables(t, db)
		sink := &counting{Memory: sinktest.NewMemory(), pause: 100 * time.Millisecond}
		sink.Caps.Limits = core.SinkLimits{RequestBytes: 64 << 10, PreferredBytes: 16 << 10}
		o := streamed(options(db, slot(db), sink), t.TempDir(), "")
		r := start(t, o)
		r.streaming(t)
		other := (&pair{t: t, db: db}).client()
		other.do("begin", rows("u", 1, 100))
		db.Exec(t, rows("t", 1, 5000))
		require.Eventually(t, func() bool { return r.Status().InFlight }, patience, time.Millisecond)
		began := time.Now()
		r.Drain()
		require.NoError(t, r.wait(t))
		t.Logf("drained in %s", time.Since(began))
		require.Zero(t, sink.rows.Load())
		noFiles(t, o.Spill.Dir)
		sink.pause = 0
		again := start(t, o)
		require.Eventually(t, func() bool { return sink.rows.Load() == 5000 }, patience, time.Millisecond)
		again.Drain()
		require.NoError(t, again.wait(t))
	})
}
