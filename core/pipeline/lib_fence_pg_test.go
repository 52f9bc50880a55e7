package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// evict frees the slot as wal_sender_timeout does for a frozen owner.
func (s *libScene) evict(t *testing.T) {
	t.Helper()
	s.db.Exec(t, fmt.Sprintf("select pg_terminate_backend(active_pid, 5000) from pg_replication_slots where slot_name = '%s'", s.slot))
}

// TestLibZombieCall: an owner that was paused before its call wakes up after a takeover.
func TestLibZombieCall(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	hold := newGate()
	s.sink.Arrive = once(1, hold.pass)
	first := s.streams(t)
	s.commit(t, 1)
	hold.reached(t)
	s.evict(t)
	second := s.streams(t)
	s.commit(t, 1)
	s.stored(t, 2)
	before := s.row(t)
	close(hold.opened)
	ended(t, first, core.HaltFenced)
	require.Equal(t, []core.Reason{core.ReasonFenced}, s.sink.Refused())
	s.has(t, 1, 2)
	require.Equal(t, before, s.row(t))
	drained(t, second)
}

// TestLibZombieWrite: an owner that was paused between the sink's OK and its row write
// finds the row moved on, and stops for good (L6).
func TestLibZombieWrite(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	first := s.streams(t)
	hold := newGate()
	zombie := s.row(t).Sender
	s.store.taps(func(m checkpoint.Move) error {
		if m.Sender == zombie && len(s.sink.Transactions()) > 0 { // no idle step
			return hold.pass()
		}
		return nil
	}, nil)
	s.commit(t, 1)
	hold.reached(t)
	s.evict(t)
	second := s.streams(t)
	s.commit(t, 1)
	s.stored(t, 2)
	before := s.row(t)
	close(hold.opened)
	ended(t, first, core.HaltFenced)
	require.Equal(t, before, s.row(t), "an older epoch wrote")
	s.has(t, 1, 1, 2) // one takeover, one repeat
	drained(t, second)
}

// TestLibLateWrite: a row write that was given up and is executed after newer ones matches
// nothing (L11).
func TestLibLateWrite(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	r := s.streams(t)
	var late checkpoint.Move
	s.store.taps(moveOnce(func(m checkpoint.Move) error { late = m; return errLost }), nil)
	s.commit(t, 1)
	s.stored(t, 1)
	s.commit(t, 2)
	s.stored(t, 3)
	require.NotZero(t, late.To)
	before := s.row(t)
	require.ErrorIs(t, s.store.Store.Advance(t.Context(), late), checkpoint.ErrMoved)
	require.Equal(t, before, s.row(t))
	s.has(t, 1, 2, 3)
	drained(t, r)
}

// TestLibLostAnswer: a row write whose answer was lost is found done, and not repeated.
func TestLibLostAnswer(t *testing.T) {
	t.Parallel()
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			s := newLibScene(t, pgtest.Shared(t, 17), store)
			r := s.streams(t)
			s.store.taps(nil, moveOnce(func(checkpoint.Move) error { return errLost }))
			s.commit(t, 2)
			s.stored(t, 2)
			s.has(t, 1, 2)
			drained(t, r)
			require.Equal(t, uint64(1), r.Status().Sessions)
		})
	}
}

func moveOnce(act func(checkpoint.Move) error) func(checkpoint.Move) error {
	done := false
	return func(m checkpoint.Move) error {
		if done {
			return nil
		}
		done = true
		return act(m)
	}
}

// TestLibSinkRestarts: a sink that comes back with an empty memory is introduced again, and
// nothing is repeated.
func TestLibSinkRestarts(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	r := s.streams(t)
	for i := range 3 {
		s.commit(t, 1)
		s.stored(t, i+1)
		s.sink.Restart()
	}
	s.commit(t, 1)
	s.has(t, 1, 2, 3, 4)
	require.Equal(t, []core.Reason{core.ReasonInstanceChanged, core.ReasonInstanceChanged, core.ReasonInstanceChanged}, s.sink.Refused())
	drained(t, r)
	require.Equal(t, uint64(1), r.Status().Sessions)
}

// TestLibPausedPredecessor: the sink has restarted with an empty memory, and a paused
// predecessor speaks to it first. It learns the instance, looks at its row, and stops (L9).
func TestLibPausedPredecessor(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	hold := newGate()
	s.sink.Arrive = once(1, hold.pass)
	first := s.streams(t)
	s.commit(t, 1)
	hold.reached(t)
	s.evict(t)
	second := s.streams(t)
	s.stored(t, 1)
	s.sink.Restart()
	close(hold.opened)
	ended(t, first, core.HaltFenced)
	require.Equal(t, []core.Reason{core.ReasonInstanceChanged}, s.sink.Refused())
	s.commit(t, 1)
	s.has(t, 1, 2)
	drained(t, second)
}

// late gives a call up at once, and executes it when it is told to.
type late struct {
	*sinktest.Lib
	nth, calls int
	release    chan struct{}
	result     chan error
}

func (l *late) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	if l.calls++; l.calls != l.nth {
		return l.Lib.HandleTransaction(ctx, u)
	}
	copied := *u
	copied.Transactions = append([]core.Transaction(nil), u.Transactions...)
	go func() {
		<-l.release
		_, err := l.Lib.HandleTransaction(context.Background(), &copied)
		l.result <- err
	}()
	return core.Ack{}, context.DeadlineExceeded
}

// TestLibLateHandler: the handler of a call that was given up runs after the repeat was
// stored, and has no effect (L10).
func TestLibLateHandler(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	sink := &late{Lib: s.sink, nth: 2, release: make(chan struct{}), result: make(chan error, 1)}
	o := s.options()
	o.Sink = sink
	r := start(t, o)
	r.streaming(t)
	s.commit(t, 3)
	s.stored(t, 3)
	close(sink.release)
	var refusal *core.Refusal
	require.ErrorAs(t, <-sink.result, &refusal)
	require.Equal(t, core.ReasonStaleDelivery, refusal.Reason)
	s.has(t, 1, 2, 3)
	drained(t, r)
	require.Equal(t, uint64(1), r.Status().Sessions, "a call without an answer is resolved by the row, in the session")
}

// TestLibFencingRequired: a sink without the fence is refused before the slot is touched,
// unless the operator takes the risk.
func TestLibFencingRequired(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	s.sink.Caps.Fencing, s.sink.Unfenced = nil, true
	halts(t, s.options(), core.HaltFencingRequired)
	var slots int
	require.NoError(t, s.db.Conn(t).QueryRow(t.Context(), "select count(*) from pg_replication_slots where slot_name = $1", s.slot).Scan(&slots))
	require.Zero(t, slots)
	o := s.options()
	o.AcceptUnfenced = true
	r := start(t, o)
	r.streaming(t)
	s.commit(t, 2)
	s.has(t, 1, 2)
	drained(t, r)
}

// TestLibRefusedSinks: what a lib sink may not be or do.
func TestLibRefusedSinks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(s *libScene)
		want  core.HaltCode
	}{
		"no HandleTransaction": {func(s *libScene) { s.sink.Caps.Set = core.NewCapabilitySet(core.CapBatch) }, core.HaltInvalidSink},
		"never an answer": {func(s *libScene) {
			s.sink.After = func(core.Call, core.LSN) error { return context.DeadlineExceeded }
		}, core.HaltSinkUnknown},
		"always fails": {func(s *libScene) {
			s.sink.Before = func(core.Call, core.LSN) error { return fmt.Errorf("driver says %s", secret) }
		}, core.HaltSinkFailed},
		"another sink in the middle": {func(s *libScene) {
			s.sink.Arrive = once(2, func() error { s.sink.Restart(); s.sink.Caps.Name = "other"; return nil })
		}, core.HaltCapabilityLost},
		"the fence is gone in the middle": {func(s *libScene) {
			s.sink.Arrive = once(2, func() error { s.sink.Restart(); s.sink.Caps.Fencing = nil; return nil })
		}, core.HaltCapabilityLost},
		"several processes behind one address": {func(s *libScene) {
			s.sink.Arrive = func(core.Call, core.LSN) error { s.sink.Restart(); return nil }
		}, core.HaltSinkContract},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
			c.spoil(s)
			r := s.start(t)
			require.Eventually(t, func() bool {
				state := r.Status().State
				return state == pipeline.StateStreaming || state == pipeline.StateHalted
			}, patience, time.Millisecond)
			s.commit(t, 2)
			err := r.wait(t)
			h, ok := core.AsHalt(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.want, h.Code, "%v", err)
			require.NotContains(t, err.Error(), secret)
			if name == "never an answer" {
				s.has(t, 1, 1, 1, 1, 1) // each unknown outcome is one repeat
			}
		})
	}
}
