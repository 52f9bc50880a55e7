package badsinks

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// store is a process' view of the disk: what is committed, and one writer at a time.
type store struct {
	disk   *disk
	life   int
	defect Defect

	writer sync.Mutex // held from the first read of a store transaction to its end
	mu     sync.RWMutex
	state  map[string]map[string]any
	// unflushed are records that an early OK kept back.
	unflushed [][]write
	// stale: a write failed, so what is committed has to be read again. dead is a
	// connection that is never made anew.
	stale, dead bool
}

func openStore(d *disk, defect Defect) *store {
	life, records := d.open()
	s := &store{disk: d, life: life, defect: defect, state: committed(records)}
	if defect == RecoveryTrustsStage {
		s.trustStage(records)
	}
	return s
}

// trustStage takes what a crashed transaction had written for committed.
func (s *store) trustStage(records []write) {
	end := 0
	for i, w := range records {
		if w.commit || w.abort {
			end = i + 1
		}
	}
	rest := records[end:]
	put, removed := false, false
	for _, w := range rest {
		row := strings.HasPrefix(w.at.bucket, "t:")
		removed = removed || row && put && w.value == nil
		put = put || row && w.value != nil
	}
	if removed && !slices.ContainsFunc(rest, func(w write) bool { return w.at.bucket == streamsBucket }) {
		for _, w := range rest {
			fold(s.state, w)
		}
	}
}

// tx is one store transaction: reads see its own writes, others see them at the commit.
type tx struct {
	store *store
	puts  map[place]any
	order []place
	held  bool
	// early: OK first, the disk at the next call. apart: rows first, then the position.
	early, apart bool
	// before is the stream's row as it was read first.
	before streamRow
}

// begin waits for other writers.
func (s *store) begin() *tx {
	s.writer.Lock()
	if s.stale {
		s.stale = false
		now := s.disk.read()
		s.mu.Lock()
		s.state = now
		s.mu.Unlock()
	}
	return &tx{store: s, puts: map[place]any{}, held: true}
}

// rush begins beside other writers.
func (s *store) rush() *tx { return &tx{store: s, puts: map[place]any{}} }

// end releases the writer; what was not committed never was.
func (t *tx) end() {
	if t.held {
		t.held = false
		t.store.writer.Unlock()
	}
}

func (t *tx) get(bucket, key string) any {
	if v, ok := t.puts[place{bucket, key}]; ok {
		return v
	}
	t.store.mu.RLock()
	defer t.store.mu.RUnlock()
	return t.store.state[bucket][key]
}

func (t *tx) put(bucket, key string, value any) {
	at := place{bucket, key}
	if _, again := t.puts[at]; !again {
		t.order = append(t.order, at)
	}
	t.puts[at] = value
}

// keys are the keys of a bucket as this transaction sees it, in order.
func (t *tx) keys(bucket string) []string {
	var keys []string
	t.store.mu.RLock()
	for k := range t.store.state[bucket] {
		if _, mine := t.puts[place{bucket, k}]; !mine {
			keys = append(keys, k)
		}
	}
	t.store.mu.RUnlock()
	for _, at := range t.order {
		if at.bucket == bucket && t.puts[at] != nil {
			keys = append(keys, at.key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (t *tx) writes(keep func(place) bool) []write {
	var out []write
	for _, at := range t.order {
		if keep == nil || keep(at) {
			out = append(out, write{at: at, value: t.puts[at]})
		}
	}
	return out
}

// commit makes all of it durable, and then visible.
func (t *tx) commit() error {
	s := t.store
	position := func(at place) bool { return at.bucket == streamsBucket }
	rows := func(at place) bool { return !position(at) }
	data := slices.ContainsFunc(t.order, rows)
	switch {
	case data && (s.defect == TwoCommits || s.defect == LogTwoCommits):
		return s.parts(t.writes(rows), t.writes(position))
	case data && s.defect == PositionFirst:
		return s.parts(t.writes(position), t.writes(rows))
	case data && s.defect == FakeTransactions:
		var parts [][]write
		for _, w := range t.writes(nil) {
			parts = append(parts, []write{w})
		}
		return s.parts(parts...)
	case t.early:
		s.show(t.writes(nil))
		s.unflushed = append(s.unflushed, t.writes(nil))
		return nil
	case data && t.apart:
		return s.parts(t.writes(rows), t.writes(position))
	}
	return s.parts(t.writes(nil))
}

// parts commits one part after the other.
func (s *store) parts(parts ...[]write) error {
	for i, part := range parts {
		if len(part) == 0 {
			continue
		}
		if s.defect == FakeTransactions && i > 0 && i%500 == 0 {
			time.Sleep(time.Millisecond)
		}
		for _, w := range append(part[:len(part):len(part)], write{commit: true}) {
			if err := s.append(w); err != nil {
				return err
			}
		}
		s.show(part)
	}
	return nil
}

// append writes one record of a store transaction.
func (s *store) append(w write) error {
	if s.dead {
		return errAway
	}
	err := s.disk.append(s.life, w)
	s.stale = s.stale || errors.Is(err, errLost) || errors.Is(err, errAway)
	s.dead = s.defect == KeepsDeadConnection && errors.Is(err, errAway)
	return err
}

// flush writes what an early OK kept back.
func (s *store) flush() {
	s.writer.Lock()
	defer s.writer.Unlock()
	for _, part := range s.unflushed {
		for _, w := range part {
			_ = s.disk.append(s.life, w)
		}
		_ = s.disk.append(s.life, write{commit: true})
	}
	s.unflushed = nil
}

func (s *store) show(part []write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range part {
		fold(s.state, w)
	}
}
