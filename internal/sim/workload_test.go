package sim

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// workload writes to the source until it has written enough or is told to stop.
type workload struct {
	w      *world
	rng    *rand.Rand
	nextID int
}

// run writes bursts with pauses between them, the pauses drawn so that the whole takes
// about as long as the faults last.
func (l *workload) run(stop <-chan struct{}) {
	p := &l.w.plan
	bursts := max(p.transactions/max(p.burst, 1), 1)
	mean := p.chaos / time.Duration(bursts)
	for written := 0; written < p.transactions; {
		n := 1 + l.rng.IntN(2*p.burst)
		for range n {
			l.w.mu.Lock()
			l.write()
			l.w.mu.Unlock()
			written++
			if l.rng.IntN(3) == 0 && !sleepOr(time.Duration(l.rng.IntN(30))*time.Millisecond, stop) {
				return
			}
		}
		if !sleepOr(time.Duration(l.rng.ExpFloat64()*float64(mean)), stop) {
			return
		}
	}
}

// write adds one record, and filler in front of it half of the time; without it the
// record begins where the one before it ended.
func (l *workload) write() {
	w := l.w.wal
	switch l.rng.IntN(6) {
	case 0, 1:
		w.add(record{kind: filler}, core.LSN(8+l.rng.IntN(400)))
	case 2:
		if l.rng.IntN(12) == 0 { // an idle stretch that is worth a position of its own
			w.add(record{kind: filler}, core.LSN(1<<20+l.rng.IntN(24<<20)))
		}
	}
	switch l.rng.IntN(12) {
	case 0: // nothing of it is published
		w.add(record{kind: commit}, 48)
	case 1:
		if l.rng.IntN(3) == 0 { // it is rolled back, or nothing of it is published
			n := 8 + l.rng.IntN(30)
			kind, rows := rollback, l.rows(n)
			if l.rng.IntN(3) == 0 {
				kind, rows = commit, nil
			}
			w.add(record{kind: kind, rows: rows, big: true}, 64)
			return
		}
		w.add(record{kind: message, prefix: "app", content: l.words(l.rng.IntN(60))}, core.LSN(40+l.rng.IntN(80)))
	default:
		l.transaction()
	}
}

func (l *workload) transaction() {
	w, p := l.w.wal, &l.w.plan
	n := 1 + l.rng.IntN(6)
	if p.large && l.rng.IntN(12) == 0 {
		n = 40 + l.rng.IntN(160)
	}
	if l.rng.IntN(12) == 0 {
		n = 8 + l.rng.IntN(12)
	}
	if p.shapes && l.rng.IntN(20) == 0 {
		l.alter()
	}
	r := record{kind: commit, rows: l.rows(n), big: n >= 8}
	if r.big && l.rng.IntN(2) == 0 {
		l.savepoints(&r)
	}
	w.add(r, core.LSN(48+8*l.rng.IntN(8)))
}

// savepoints lays savepoints over parts of a transaction and rolls some of them back.
func (l *workload) savepoints(r *record) {
	for i, savepoint := 0, 1; i < len(r.rows); savepoint++ {
		i += l.rng.IntN(4)
		for range 1 + l.rng.IntN(5) {
			if i < len(r.rows) {
				r.rows[i].savepoint = savepoint
				i++
			}
		}
		if l.rng.IntN(3) == 0 {
			r.gone = append(r.gone, savepoint)
		}
	}
}

// alter adds a column to a table.
func (l *workload) alter() {
	t := &l.w.wal.tables[l.rng.IntN(len(l.w.wal.tables))]
	if t.shape < 6 {
		t.shape++
	}
}

func (l *workload) rows(n int) (rows []row) {
	w, p := l.w.wal, &l.w.plan
	for range n {
		at := l.rng.IntN(len(w.tables))
		if p.shapes && w.tables[at].shape < 6 && l.rng.IntN(60) == 0 {
			w.tables[at].shape++
		}
		rows = append(rows, l.row(at))
	}
	return rows
}

func (l *workload) row(at int) row {
	l.nextID++
	r := row{
		op: core.OpInsert, table: at, shape: l.w.wal.tables[at].shape,
		id: strconv.Itoa(l.nextID), text: l.words(l.rng.IntN(120)),
	}
	switch l.rng.IntN(12) {
	case 0, 1:
		r.op = core.OpUpdate
	case 2:
		r.op, r.text = core.OpDelete, ""
	case 3:
		r.op, r.cascade = core.OpTruncate, l.rng.IntN(2) == 0
	case 4:
		r.op, r.id, r.shape = core.OpMessage, "in", 0
	}
	return r
}

// words is a text of about n bytes that names itself, so that no two are equal.
func (l *workload) words(n int) string {
	return strconv.Itoa(l.nextID) + strings.Repeat("x", n)
}

// sleepOr sleeps, and reports false when stop came first.
func sleepOr(d time.Duration, stop <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}
