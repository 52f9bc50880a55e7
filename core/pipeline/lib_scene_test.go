package pipeline_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/filestore"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/pgstore"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// patience bounds every wait for a fact. It is far above what a slow machine needs, and
// short enough that a mutant is seen to fail and not to hang.
const patience = 40 * time.Second

// tapped is a real store with a tap at its writes. An error of a tap before means that
// nothing was written, one of a tap after that the answer was lost.
type tapped struct {
	checkpoint.Store

	mu                   sync.Mutex
	claim, before, after func(checkpoint.Move) error
	moves                []checkpoint.Move
}

var errLost = &checkpoint.UnavailableError{Op: "advance", Reason: "the answer was lost"}

// taps sets the taps at the writes of the position; nil takes one away.
func (s *tapped) taps(before, after func(checkpoint.Move) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *tapped) Claim(ctx context.Context, c checkpoint.Claiming) (checkpoint.Record, error) {
	if s.claim != nil {
		if err := s.claim(checkpoint.Move{}); err != nil {
			return checkpoint.Record{}, err
		}
	}
	return s.Store.Claim(ctx, c)
}

func (s *tapped) Advance(ctx context.Context, m checkpoint.Move) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(m); err != nil {
			return err
		}
	}
	if err := s.Store.Advance(ctx, m); err != nil {
		return err
	}
	s.mu.Lock()
	s.moves = append(s.moves, m)
	s.mu.Unlock()
	if after != nil {
		return after(m)
	}
	return nil
}

// written are the moves that matched the row.
func (s *tapped) written() []checkpoint.Move {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]checkpoint.Move(nil), s.moves...)
}

// libScene is a source with one table, a sink without checkpoint, and a store.
type libScene struct {
	db    *pgtest.DB
	slot  string
	sink  *sinktest.Lib
	store *tapped
	batch int
	next  int
	// before[id-1] lies before the end of transaction id, behind the end of the last one.
	before []core.LSN
}

func newLibScene(t *testing.T, pg *pgtest.Server, store func(t *testing.T, db *pgtest.DB) checkpoint.Store) *libScene {
	t.Helper()
	db := pg.Database(t)
	db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t")
	return &libScene{db: db, slot: slot(db), sink: sinktest.NewLib(), store: &tapped{Store: store(t, db)}}
}

func inPostgres(t *testing.T, db *pgtest.DB) checkpoint.Store {
	t.Helper()
	s, err := pgstore.New(pgstore.Options{DSN: db.DSN, Publications: []string{"p"}, CallTimeout: 2 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func inFiles(t *testing.T, _ *pgtest.DB) checkpoint.Store {
	t.Helper()
	s, err := filestore.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func (s *libScene) options() pipeline.Options {
	o := options(s.db, s.slot, s.sink)
	o.Store, o.StoreBatch = s.store, s.batch
	return o
}

func (s *libScene) start(t *testing.T) *running {
	t.Helper()
	return start(t, s.options())
}

// streams starts and waits until it streams.
func (s *libScene) streams(t *testing.T) *running {
	t.Helper()
	r := s.start(t)
	r.streaming(t)
	return r
}

// commit makes n transactions, each with one row that bears its number, and notes a
// position that lies before the end of each.
func (s *libScene) commit(t *testing.T, n int) {
	t.Helper()
	c := s.db.Conn(t)
	for range n {
		s.next++
		var at string
		require.NoError(t, c.QueryRow(t.Context(), "select pg_current_wal_insert_lsn()::text").Scan(&at))
		lsn, err := core.ParseLSN(at)
		require.NoError(t, err)
		s.before = append(s.before, lsn)
		_, err = c.Exec(t.Context(), fmt.Sprintf("insert into t values (%d, 'x')", s.next))
		require.NoError(t, err)
	}
}

// piled waits until a transaction has been read, while the sink holds one before it.
func (s *libScene) piled(t *testing.T, r *running, id int) {
	t.Helper()
	require.Eventually(t, func() bool { return r.Status().Received > s.before[id-1] }, patience, time.Millisecond)
}

// ids are the numbers of the transactions as they took effect.
func (s *libScene) ids() []int {
	var all []int
	for _, tx := range s.sink.Transactions() {
		id, err := strconv.Atoi(string(tx.Changes[0].New.Value(0).Text))
		if err != nil {
			return nil
		}
		all = append(all, id)
	}
	return all
}

// has waits until the effects are these, repeats included, and no more come at once.
func (s *libScene) has(t *testing.T, want ...int) {
	t.Helper()
	s.sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) >= len(want) })
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, want, s.ids())
}

func (s *libScene) row(t *testing.T) checkpoint.Record {
	t.Helper()
	r, found, err := s.store.Read(t.Context(), s.slot)
	require.NoError(t, err)
	require.True(t, found)
	return r
}

// end is the end LSN of the transaction with this number, as it was delivered.
func (s *libScene) end(t *testing.T, id int) core.LSN {
	t.Helper()
	for i, one := range s.ids() {
		if one == id {
			return s.sink.Transactions()[i].EndLSN
		}
	}
	t.Fatalf("transaction %d was not delivered", id)
	return 0
}

// stored waits until the row stands at the end of a transaction.
func (s *libScene) stored(t *testing.T, id int) {
	t.Helper()
	s.sink.WaitFor(patience, func([]sinktest.Transaction) bool {
		ids := s.ids()
		return len(ids) > 0 && ids[len(ids)-1] >= id
	})
	require.Eventually(t, func() bool { return s.row(t).Position >= s.end(t, id) }, patience, 2*time.Millisecond)
}

// drained ends a run in good order.
func drained(t *testing.T, r *running) {
	t.Helper()
	r.Drain()
	require.NoError(t, r.wait(t))
}

// aborted ends a run as a crash does: nothing more is written or told.
func aborted(t *testing.T, r *running) {
	t.Helper()
	r.cancel()
	require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
}

func ended(t *testing.T, r *running, code core.HaltCode) {
	t.Helper()
	err := r.wait(t)
	h, ok := core.AsHalt(err)
	require.True(t, ok, "want halt %s, got %v", code, err)
	require.Equal(t, code, h.Code, "%v", err)
}

// once is a hook that acts at its n-th passage, counted from 1.
func once(n int, act func() error) func(core.Call, core.LSN) error {
	var mu sync.Mutex
	passed := 0
	return func(core.Call, core.LSN) error {
		mu.Lock()
		passed++
		now := passed == n
		mu.Unlock()
		if now {
			return act()
		}
		return nil
	}
}

// gate holds who passes until it is opened.
type gate struct{ arrived, opened chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) pass() error {
	g.arrived <- struct{}{}
	<-g.opened
	return nil
}

func (g *gate) reached(t *testing.T) {
	t.Helper()
	select {
	case <-g.arrived:
	case <-time.After(patience):
		t.Fatal("nobody came to the gate")
	}
}

// numbers are from..to.
func numbers(from, to int) []int {
	var all []int
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}
