package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// memStore is a store with transactions, in memory: a mirror of rows by their first
// column, and the stream rows. A transaction works on copies, which commit puts in
// place. It can be told to fail at a step.
type memStore struct {
	lock   chan struct{} // the row lock, one for all streams
	mu     sync.Mutex
	rows   map[string]string
	stream map[string]StreamRow
	failAt string
	began  int
}

func newMemStore() *memStore {
	return &memStore{lock: make(chan struct{}, 1), rows: map[string]string{}, stream: map[string]StreamRow{}}
}

var errStore = errors.New("store failed on key 4711")

func (s *memStore) Begin(ctx context.Context, stream string) (StoreTx, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failAt == "begin" {
		return nil, errStore
	}
	s.began++
	return &memTx{store: s, ctx: ctx, stream: stream, rows: maps.Clone(s.rows)}, nil
}

func (s *memStore) snapshot() (map[string]string, map[string]StreamRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rows), maps.Clone(s.stream)
}

type memTx struct {
	store    *memStore
	ctx      context.Context
	stream   string
	rows     map[string]string
	saved    *StreamRow
	locked   bool
	ended    bool
	inserted uint64
	after    func() // more that commit puts in place
}

func (t *memTx) fails(step string) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.store.failAt == step {
		return errStore
	}
	return nil
}

func (t *memTx) Load() (StreamRow, bool, error) {
	if !t.locked {
		select {
		case t.store.lock <- struct{}{}:
			t.locked = true
		case <-t.ctx.Done():
			return StreamRow{}, false, t.ctx.Err()
		}
	}
	if err := t.fails("load"); err != nil {
		return StreamRow{}, false, err
	}
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	row, found := t.store.stream[t.stream]
	return row, found, nil
}

func (t *memTx) Save(row StreamRow) error {
	row.ResumeState = append([]byte(nil), row.ResumeState...)
	t.saved = &row
	return t.fails("save")
}

func (t *memTx) Apply(tx *core.Transaction, first uint64) error {
	for i, c := range tx.Changes {
		switch c.Op {
		case core.OpInsert:
			t.rows[string(c.New.Value(0).Text)] = fmt.Sprintf("%d/%d", tx.CommitLSN, first+uint64(i))
			t.inserted++
		case core.OpDelete:
			delete(t.rows, string(c.Old.Value(0).Text))
		}
	}
	return t.fails("apply")
}

func (t *memTx) Counts() core.Counts { return core.Counts{Inserted: &t.inserted} }

func (t *memTx) Commit() error {
	defer t.end()
	if err := t.fails("commit"); err != nil {
		return err
	}
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.store.rows = t.rows
	if t.saved != nil {
		t.store.stream[t.stream] = *t.saved
	}
	if t.after != nil {
		t.after()
	}
	return nil
}

func (t *memTx) Rollback() error {
	t.end()
	return nil
}

func (t *memTx) end() {
	if t.locked && !t.ended {
		<-t.store.lock
	}
	t.ended = true
}
