package cases_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// smallLimits make a transaction large that is not.
var smallLimits = core.SinkLimits{RequestBytes: 64 << 10, PreferredBytes: 16 << 10}

// piecewise is a sink that is asked before each piece of a large transaction.
type piecewise struct {
	*sinktest.Memory
	piece func(n int) error
}

func (p *piecewise) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	return p.Memory.HandleLargeTransaction(ctx, &pieces{LargeTransaction: l, piece: p.piece})
}

type pieces struct {
	core.LargeTransaction
	n     int
	piece func(n int) error
}

func (p *pieces) Next(ctx context.Context) (core.LargeFrame, error) {
	p.n++
	if err := p.piece(p.n); err != nil {
		return core.LargeFrame{}, err
	}
	return p.LargeTransaction.Next(ctx)
}

func TestX07CrashInsideOneTransaction(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x07(id int primary key)")
		for _, route := range []route{overGRPC, inProcess} {
			var r *road
			var crash, hold atomic.Bool
			asked := 0
			r = s.road(way{route: route, limits: smallLimits, wrap: func(m *sinktest.Memory) core.Sink {
				return &piecewise{m, func(n int) error {
					asked = max(asked, n)
					if n == 4 && crash.CompareAndSwap(true, false) {
						r.abort()
						return errGone
					}
					if n == 4 && hold.CompareAndSwap(true, false) {
						r.heartbeats(2)
						r.sample()
					}
					return nil
				}}
			}})
			s.sql("truncate x07")
			r.until("the first is delivered", func() bool { return len(r.transactions()) == 1 })
			crash.Store(true)
			s.sql("insert into x07 select generate_series(1,20000)")
			require.Error(s, r.over())
			require.Len(s, r.transactions(), 1, "a part of a transaction is no transaction")
			stored := r.sink.Stored().Position
			require.LessOrEqual(s, r.confirmed(), stored)

			hold.Store(true)
			r.begin()
			r.until("it is delivered whole", func() bool { return len(r.transactions()) == 2 })
			require.False(s, hold.Load(), "nobody looked in the middle")
			require.Greater(s, asked, 10, "it came in pieces")
			require.True(s, r.sink.Transactions()[1].Large)
			require.Len(s, r.transactions()[1].Changes, 20000)
			require.LessOrEqual(s, stored, r.transactions()[1].CommitLSN, "nothing of it was stored at the crash")
			r.drain()
			r.audit()
		}
	})
}

// heartbeats waits until the server heard that often from the sidecar. It runs on the
// sink's side.
func (r *road) heartbeats(times int) {
	last := ""
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); times >= 0 && time.Now().Before(end); <-look.C {
		answer, err := r.watch.try(`select reply_time from pg_stat_replication where pid =
 (select active_pid from pg_replication_slots where slot_name=` + literal(r.slot) + ")")
		if err != nil || len(answer.rows) != 1 || answer.rows[0][0] == nil {
			r.Errorf("the server shows no reply: %v", err)
			return
		}
		if now := *answer.rows[0][0]; now != last {
			last = now
			times--
		}
	}
	if times >= 0 {
		r.Errorf("the sidecar fell silent")
	}
}

// tally is a sink that keeps no row of a large transaction, and holds each against what
// it must be.
type tally struct {
	*sinktest.Memory
	pause          func() // once, in the middle
	rows, frames   int
	first, highest uint64 // heap before the first piece, and the highest after
	fault          error
}

func (y *tally) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	begin := l.Begin()
	y.first = heap()
	for {
		frame, err := l.Next(ctx)
		if err != nil {
			return core.Ack{}, err
		}
		if frame.Commit != nil {
			if frame.Commit.ChangeCount != uint64(y.rows) {
				y.fault = fmt.Errorf("%d rows, the commit says %d", y.rows, frame.Commit.ChangeCount)
			}
			return y.Memory.HandleBatch(ctx, &core.Unit{Call: begin.Call, Expected: begin.Expected, Checkpoint: frame.Commit.Checkpoint})
		}
		y.frame(&frame)
	}
}

func (y *tally) frame(frame *core.LargeFrame) {
	if frame.FirstChangeIndex != uint64(y.rows) {
		y.fault = fmt.Errorf("a piece begins at %d, %d rows came before it", frame.FirstChangeIndex, y.rows)
	}
	for i := range frame.Changes {
		y.rows++
		sum := md5.Sum([]byte(strconv.Itoa(y.rows)))
		want := strings.Repeat(hex.EncodeToString(sum[:]), 10)
		row := frame.Changes[i].New
		if string(row.Value(0).Text) != strconv.Itoa(y.rows) || string(row.Value(1).Text) != want {
			y.fault = fmt.Errorf("row %d is another", y.rows)
		}
	}
	y.frames++
	if y.frames == 32 {
		y.pause()
	}
	if y.frames%64 == 32 {
		y.highest = max(y.highest, heap())
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// x08Rows is a short form of the case; REPLICANT_CASES=long takes its full size.
func x08Rows() int {
	if os.Getenv("REPLICANT_CASES") == "long" {
		return 3_000_000
	}
	return 200_000
}

// It runs alone, so that the heap is its own.
func TestX08HugeTransaction(t *testing.T) {
	const heapMax = 12 << 20
	eachAlone(t, func(s *scene) {
		s.sql("create table x08(id int primary key, t text)", "create table after(id int primary key)")
		y := &tally{}
		r := s.road(way{
			limits: core.SinkLimits{RequestBytes: 256 << 10, PreferredBytes: 64 << 10},
			wrap:   func(m *sinktest.Memory) core.Sink { y.Memory = m; return y },
		})
		// The sink is slow for a while: whoever reads ahead without bound has time to.
		y.pause = func() { r.heartbeats(50) }
		rows := x08Rows()
		s.sql(fmt.Sprintf("insert into x08 select i, repeat(md5(i::text),10) from generate_series(1,%d) i", rows), "insert into after values (1)")
		s.mark()
		require.NoError(s, y.fault)
		require.Equal(s, rows, y.rows)
		require.Equal(s, []string{"insert after new{id=<1>}", commit}, r.shown(), "what came later follows")
		require.Greater(s, y.frames, rows*300/(256<<10), "no piece is above the limit")
		require.Less(s, int64(y.highest)-int64(y.first), int64(heapMax), "%d rows of 320 bytes do not fit in it", rows)
		r.drain()
		require.NoError(s, inOrder(r.sink.Transactions(), r.sink.Units()))
	})
}

// inOnePiece is a sink that does not take transactions in pieces.
type inOnePiece struct {
	core.CheckpointHandler
	core.BatchHandler
	m *sinktest.Memory
}

func (p inOnePiece) Capabilities(ctx context.Context) (core.Capabilities, error) {
	capabilities, err := p.m.Capabilities(ctx)
	capabilities.Set = core.NewCapabilitySet(core.CapCheckpoint, core.CapBatch)
	return capabilities, err
}

func TestX08HardCap(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x08(id int primary key, t text)")
		// A sink that does not take pieces, and one row that no piece can hold.
		whole := s.road(way{limits: smallLimits, wrap: func(m *sinktest.Memory) core.Sink { return inOnePiece{m, m, m} }})
		wide := s.road(way{limits: smallLimits, route: inProcess})
		s.sql("insert into x08 values (1,'a')", "insert into x08 select i,repeat('b',100) from generate_series(2,2001) i",
			"insert into x08 values (3000,repeat('c',70000))")
		halt := whole.halts(core.HaltTransactionTooLarge)
		require.Contains(s, halt.Error(), "65536")
		require.Equal(s, []string{"insert x08 new{id=<1> t=<a>}", commit}, whole.shown())
		halt = wide.halts(core.HaltValueTooLarge)
		require.Contains(s, halt.Error(), "65536")
		require.Contains(s, halt.Error(), "public.x08")
		require.NotContains(s, halt.Error(), "ccc")
		require.Len(s, wide.transactions(), 2)
		for _, r := range s.roads {
			require.LessOrEqual(s, r.confirmed(), r.sink.Stored().Position)
		}
	})
}
