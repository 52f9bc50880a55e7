package sim

import (
	"maps"
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// inProgress is a big transaction that is streamed before its commit, in blocks between
// other transactions.
type inProgress struct {
	r      *record
	next   int // row to send
	begun  bool
	inside map[int]int // what was described in it
}

// lookAhead is how many records before its commit a transaction may begin to be streamed.
const lookAhead = 6

// inProgress gives blocks of transactions that have not come to their end, and all that is
// left of the one whose end is next. The world's mutex is held.
func (s *walsender) inProgress() (b []byte) {
	if !s.streaming {
		return nil
	}
	list := s.enc.wal.records
	for i := s.next; i < min(s.next+lookAhead, len(list)); i++ {
		r := list[i]
		last := i == s.next
		if !r.big || !last && s.rng.IntN(3) > 0 {
			continue
		}
		tx := s.streams[r]
		if tx == nil {
			if last && r.kind == rollback || last && s.rng.IntN(3) == 0 {
				continue // it stayed small enough
			}
			tx = &inProgress{r: r, inside: map[int]int{}}
			s.streams[r] = tx
		}
		n := len(r.rows)
		if !last {
			n = written(tx, list[s.next:i], 1+s.rng.IntN(6))
		}
		b = s.block(b, tx, n, list[s.next].start)
	}
	return b
}

// written is how many of the next n rows may have been written before those records: who
// changes a table's shape waits for all who have written to it, and they wait for him.
func written(tx *inProgress, before []*record, n int) int {
	rows := tx.r.rows[tx.next:min(tx.next+n, len(tx.r.rows))]
	for i := range rows {
		for _, r := range before {
			if slices.ContainsFunc(r.rows, func(o row) bool { return o.table == rows[i].table && o.shape < rows[i].shape }) {
				return i
			}
		}
	}
	return n
}

// block appends at most n rows in blocks. A savepoint that is rolled back ends its block,
// since the server tells of it before it sends anything that came behind it.
func (s *walsender) block(b []byte, tx *inProgress, n int, at core.LSN) []byte {
	for first := true; first || n > 0 && tx.next < len(tx.r.rows); first = false {
		rows := tx.r.rows[tx.next:min(tx.next+n, len(tx.r.rows))]
		over := 0 // the savepoint that is rolled back behind these rows
		for i := range rows {
			here := rows[i].savepoint
			ends := tx.next+i+1 == len(tx.r.rows) || tx.r.rows[tx.next+i+1].savepoint != here
			if ends && slices.Contains(tx.r.gone, here) {
				rows, over = rows[:i+1], here
				break
			}
		}
		b = s.rows(b, tx, rows, at)
		tx.next, n = tx.next+len(rows), n-len(rows)
		if over != 0 {
			clear(tx.inside) // all is described again
			body := be.AppendUint32([]byte{'A'}, tx.r.xid)
			b = waltest.AppendData(b, uint64(at), be.AppendUint32(body, tx.r.savepointXID(over)))
		}
	}
	return b
}

// rows appends one block.
func (s *walsender) rows(b []byte, tx *inProgress, rows []row, at core.LSN) []byte {
	if len(rows) == 0 && tx.begun {
		return b
	}
	first := byte(1)
	if tx.begun {
		first = 0
	}
	tx.begun = true
	b = waltest.AppendData(b, uint64(at), append(be.AppendUint32([]byte{'S'}, tx.r.xid), first))
	e := &s.enc
	e.frames, e.inside = nil, tx.inside
	for i := range rows {
		e.within = tx.r.savepointXID(rows[i].savepoint)
		switch {
		case rows[i].op != core.OpMessage:
			e.row(at, &rows[i])
		case e.wal.messages:
			e.within = tx.r.xid // whoever wrote it
			e.row(at, &rows[i])
		}
	}
	e.within = 0
	for _, frame := range e.frames {
		b = append(b, frame...)
	}
	return waltest.AppendData(b, uint64(at), []byte{'E'})
}

// savepointXID is the id of a savepoint's subtransaction; 0 is the top.
func (r *record) savepointXID(savepoint int) uint32 { return r.xid + uint32(savepoint)*1_000_000 }

// end is the commit or the abort of a transaction that was streamed; nil for another.
func (s *walsender) end(r *record) [][]byte {
	tx := s.streams[r]
	if tx == nil {
		return nil
	}
	delete(s.streams, r)
	if r.kind == rollback {
		body := be.AppendUint32([]byte{'A'}, r.xid)
		return [][]byte{waltest.AppendData(nil, uint64(r.end), be.AppendUint32(body, r.xid))}
	}
	maps.Copy(s.enc.described, tx.inside)
	body := append(be.AppendUint32([]byte{'c'}, r.xid), 0)
	body = be.AppendUint64(be.AppendUint64(body, uint64(r.start)), uint64(r.end))
	return [][]byte{waltest.AppendData(nil, uint64(r.end), be.AppendUint64(body, uint64(micros(r))))}
}
