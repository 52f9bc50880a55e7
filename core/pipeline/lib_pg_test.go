package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// stores are the two places of a row.
var stores = map[string]func(t *testing.T, db *pgtest.DB) checkpoint.Store{"postgres": inPostgres, "file": inFiles}

// TestLibRoad: without a fault every transaction takes effect once, in both modes, on both
// stores; a drain leaves row and slot at the same position, and a start goes on from it.
func TestLibRoad(t *testing.T) {
	for name, store := range stores {
		for mode, batch := range map[pipeline.Mode]int{pipeline.ModeLib: 0, pipeline.ModeLibBatched: 3} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				t.Parallel()
				s := newLibScene(t, pgtest.Shared(t, 17), store)
				s.batch = batch
				r := s.streams(t)
				require.Equal(t, mode, r.Status().Mode)
				s.commit(t, 7)
				s.has(t, numbers(1, 7)...)
				drained(t, r)
				require.GreaterOrEqual(t, s.row(t).Position, s.end(t, 7))
				require.Equal(t, s.row(t).Position, confirmed(t, s.db, s.slot))
				require.Equal(t, "lib", s.row(t).SinkName)

				epoch := s.row(t).Epoch
				s.commit(t, 3)
				again := s.streams(t)
				s.has(t, numbers(1, 10)...)
				require.Greater(t, again.Status().Epoch, epoch)
				drained(t, again)
			})
		}
	}
}

// TestLibOneWriteABatch: a batch is one write, and no more transactions than were asked for.
func TestLibOneWriteABatch(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	s.batch = 4
	first, second := newGate(), newGate()
	s.sink.Before, s.sink.After = once(1, first.pass), once(2, second.pass)
	r := s.streams(t)
	s.commit(t, 1)
	first.reached(t)
	s.commit(t, 9)
	s.piled(t, r, 6) // it does not fit the batch behind the first
	close(first.opened)
	second.reached(t)
	s.piled(t, r, 10)
	close(second.opened)
	s.has(t, numbers(1, 10)...)
	s.stored(t, 10)
	var reached []int
	for _, m := range s.store.written() {
		for id := range s.next {
			if s.end(t, id+1) == m.To {
				reached = append(reached, id+1)
			}
		}
	}
	require.Equal(t, []int{1, 5, 9, 10}, reached)
}

// TestLibCrash: how often what was done is done again, for a crash at each step. The
// numbers are exact: L1, L2, L4, B1 and B2 of the fault matrix.
func TestLibCrash(t *testing.T) {
	type crash func() error
	for name, c := range map[string]struct {
		batch int
		at    func(s *libScene, crash crash)
		want  []int // all effects of the ten transactions
	}{
		"before the call": {0, func(s *libScene, crash crash) { s.sink.Arrive = once(4, crash) }, numbers(1, 10)},
		"after the effect, the reply lost": {0, func(s *libScene, crash crash) {
			s.sink.After = once(4, func() error { _ = crash(); return errLost })
		}, append(numbers(1, 4), numbers(4, 10)...)},
		"after the reply, before the row": {0, func(s *libScene, crash crash) {
			s.store.taps(s.when(4, func() error { _ = crash(); return errLost }), nil)
		}, append(numbers(1, 4), numbers(4, 10)...)},
		"after the row": {0, func(s *libScene, crash crash) {
			s.store.taps(nil, s.when(4, crash))
		}, numbers(1, 10)},
		"batched, after two of five": {5, func(s *libScene, crash crash) {
			s.sink.After = once(3, crash)
		}, append(numbers(1, 3), numbers(2, 10)...)},
		"batched, after all five": {5, func(s *libScene, crash crash) {
			s.store.taps(s.when(6, func() error { _ = crash(); return errLost }), nil)
		}, append(numbers(1, 6), numbers(2, 10)...)},
		"batched, after the row": {5, func(s *libScene, crash crash) {
			s.store.taps(nil, s.when(6, crash))
		}, numbers(1, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
			s.batch = c.batch
			var r *running
			c.at(s, func() error { r.cancel(); return nil })
			hold := newGate()
			s.sink.Before = once(1, hold.pass)
			r = s.streams(t)
			s.commit(t, 1)
			hold.reached(t)
			s.commit(t, 9)
			if s.batch > 0 {
				s.piled(t, r, s.batch+2) // the one that does not fit
			}
			close(hold.opened)
			require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
			require.LessOrEqual(t, confirmed(t, s.db, s.slot), s.row(t).Position, "told more than is stored")
			s.sink.Arrive, s.sink.Before, s.sink.After = nil, nil, nil
			s.store.taps(nil, nil)

			s.streams(t)
			s.has(t, c.want...)
		})
	}
}

// TestLibManyCrashes: seeded crashes at every step of many transactions. Whatever happens
// nothing is missing, effects run forward by one or begin again just above the row, and
// no crash repeats more than a batch.
func TestLibManyCrashes(t *testing.T) {
	for _, batch := range []int{1, 4} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("batch %d seed %d", batch, seed), func(t *testing.T) {
				t.Parallel()
				crashes(t, batch, rand.New(rand.NewPCG(seed, 7)))
			})
		}
	}
}

func crashes(t *testing.T, batch int, rng *rand.Rand) {
	const crashes, each = 12, 6
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	s.batch = batch
	drained(t, s.streams(t)) // makes the slot
	for range crashes {
		var r *running
		running := make(chan struct{})
		crash := func() error { <-running; r.cancel(); return nil }
		n := 1 + rng.IntN(each)
		switch rng.IntN(4) {
		case 0:
			s.sink.Arrive = once(n, crash)
		case 1:
			s.sink.After = once(n, crash)
		case 2:
			s.store.taps(moved(n, func() error { _ = crash(); return errLost }), nil)
		case 3:
			s.store.taps(nil, moved(n, crash))
		}
		r = s.start(t)
		close(running)
		s.commit(t, each)
		select {
		case err := <-r.done:
			r.done <- err
		case <-time.After(time.Second): // fewer writes than n
		}
		aborted(t, r)
		s.sink.Arrive, s.sink.After = nil, nil
		s.store.taps(nil, nil)
		require.LessOrEqual(t, confirmed(t, s.db, s.slot), s.row(t).Position)
	}
	r := s.streams(t)
	s.stored(t, s.next)
	drained(t, r)
	judge(t, s.ids(), s.next, crashes, batch)
	require.LessOrEqual(t, len(s.ids())-s.next, crashes*batch)
}

// when is a tap that acts once the sink has so many effects.
func (s *libScene) when(effects int, act func() error) func(checkpoint.Move) error {
	return func(checkpoint.Move) error {
		if len(s.sink.Transactions()) == effects {
			return act()
		}
		return nil
	}
}

// moved is once for the taps of a store.
func moved(n int, act func() error) func(checkpoint.Move) error {
	f := once(n, act)
	return func(checkpoint.Move) error { return f(core.Call{}, 0) }
}

// judge checks effects against what was committed: 1..last.
func judge(t *testing.T, ids []int, last, faults, bound int) {
	t.Helper()
	top, jumps := 0, 0
	before := 0
	for _, id := range ids {
		if id != before+1 {
			jumps++
			require.LessOrEqual(t, id, top, "a hole in %v", ids)
			require.Greater(t, id, top-bound, "more than one batch again in %v", ids)
		}
		top, before = max(top, id), id
	}
	require.Equal(t, last, top)
	require.LessOrEqual(t, jumps, faults)
}

// TestLibDrainMidBatch: a drain stores what the sink has confirmed, tells it to Postgres,
// and the next start repeats nothing (B4).
func TestLibDrainMidBatch(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	s.batch = 9
	hold := newGate()
	var r *running
	s.sink.Before = once(1, hold.pass)
	s.sink.After = once(3, func() error { r.Drain(); return nil })
	r = s.streams(t)
	s.commit(t, 1)
	hold.reached(t)
	s.commit(t, 9)
	s.piled(t, r, 10)
	close(hold.opened)
	require.NoError(t, r.wait(t))
	s.has(t, 1, 2, 3)
	require.Equal(t, s.end(t, 3), s.row(t).Position)
	require.Equal(t, s.end(t, 3), confirmed(t, s.db, s.slot))
	s.streams(t)
	s.has(t, numbers(1, 10)...)
}

// TestLibShapesOfAPartOfABatch: of a batch that ends in the middle the shapes are kept
// that the kept part has shown for the first time, so that a change of them is noticed by
// the next start, although it was made while nobody looked.
func TestLibShapesOfAPartOfABatch(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *libScene, r func() *running) (over func(*running)){
		"drain": func(t *testing.T, s *libScene, r func() *running) func(*running) {
			s.sink.After = once(3, func() error { r().Drain(); return nil })
			return func(r *running) { require.NoError(t, r.wait(t)) }
		},
		"refusal": func(t *testing.T, s *libScene, _ func() *running) func(*running) {
			s.sink.Before = once(4, func() error { return &core.Refusal{Reason: core.ReasonUnitRejected} })
			return func(r *running) { ended(t, r, core.HaltSinkRejected) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
			s.db.Exec(t, "create table u(id int primary key, v text)", "alter publication p add table u")
			s.batch = 9
			hold := newGate()
			var r *running
			over := end(t, s, func() *running { return r })
			s.sink.Arrive = once(1, hold.pass)
			r = s.streams(t)
			s.commit(t, 1)
			hold.reached(t)
			s.db.Exec(t, "insert into u values (2, 'x')")
			s.next, s.before = 2, append(s.before, s.before[0])
			s.commit(t, 8)
			s.piled(t, r, 10)
			close(hold.opened)
			over(r)
			s.has(t, 1, 2, 3)
			require.Equal(t, s.end(t, 3), s.row(t).Position)
			s.sink.Before, s.sink.After = nil, nil
			s.db.Exec(t, "alter table u drop column v", "insert into u values (11)")
			halts(t, s.options(), core.HaltSchemaDestructive)
			s.has(t, numbers(1, 10)...)
		})
	}
}

// TestLibRefusedMidBatch: what was done before a refusal stays done.
func TestLibRefusedMidBatch(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	s.batch = 9
	hold := newGate()
	s.sink.Arrive = once(1, hold.pass)
	s.sink.Before = once(4, func() error { return &core.Refusal{Reason: core.ReasonUnitRejected} })
	r := s.streams(t)
	s.commit(t, 1)
	hold.reached(t)
	s.commit(t, 9)
	s.piled(t, r, 10)
	close(hold.opened)
	ended(t, r, core.HaltSinkRejected)
	s.has(t, 1, 2, 3)
	require.Equal(t, s.end(t, 3), s.row(t).Position)
	s.sink.Before = nil
	s.streams(t)
	s.has(t, numbers(1, 10)...)
}

// TestLibBorders: a message and a large transaction behind an open batch: the batch is
// stored first, and a crash after the message's OK gives the message again, the batch not.
func TestLibBorders(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	s.batch = 9
	s.sink.Caps.Limits = core.SinkLimits{RequestBytes: 64 << 10}
	o := s.options()
	o.Source.Messages = true
	hold := newGate()
	s.sink.Before = once(1, hold.pass)
	r := start(t, o)
	r.streaming(t)
	s.commit(t, 1)
	hold.reached(t)
	s.commit(t, 3)
	s.db.Exec(t, "select pg_logical_emit_message(false, 'p', 'one')")
	s.commit(t, 2)
	s.db.Exec(t, "insert into t select 100 + i, repeat('x', 1000) from generate_series(1, 300) i")
	s.commit(t, 1)
	s.piled(t, r, 4)
	s.store.taps(func(m checkpoint.Move) error {
		if messages := s.sink.Messages(); len(messages) == 1 && m.To == messages[0].LSN {
			r.cancel()
			return errLost
		}
		return nil
	}, nil)
	close(hold.opened)
	require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
	s.has(t, 1, 2, 3, 4)
	require.Equal(t, s.end(t, 4), s.row(t).Position)
	s.store.taps(nil, nil)
	again := start(t, o)
	s.has(t, 1, 2, 3, 4, 5, 6, 101, 7)
	require.Len(t, s.sink.Messages(), 2, "at least once")
	log := s.sink.Transactions()
	require.True(t, log[6].Large)
	require.Len(t, log[6].Changes, 300)
	require.Greater(t, s.sink.Messages()[1].LSN, log[3].EndLSN)
	require.Less(t, s.sink.Messages()[1].LSN, log[4].EndLSN)
	again.streaming(t)
	drained(t, again)
}

// TestLibIdle: an idle position is written to the row, and the sink hears nothing of it.
func TestLibIdle(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	r := s.streams(t)
	before := s.row(t).Position
	s.db.Exec(t, "create table other(id int)", "insert into other select generate_series(1, 1000)", "select pg_switch_wal()")
	require.Eventually(t, func() bool { return s.row(t).Position > before }, 2*patience, 10*time.Millisecond)
	require.LessOrEqual(t, confirmed(t, s.db, s.slot), s.row(t).Position)
	require.Empty(t, s.sink.Transactions())
	// One or more: how often the server speaks while the WAL moves is its affair.
	require.Eventually(t, func() bool { return r.Status().IdleSteps > 0 }, patience, 10*time.Millisecond)
	drained(t, r)
	drained(t, s.streams(t))
}
