package sim

import (
	"slices"
	"sort"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// walBegin is where the WAL of every simulation begins.
const walBegin core.LSN = 0x2000000

type recordKind uint8

const (
	filler   recordKind = iota // WAL that holds nothing for us
	commit                     // a commit record; the rows came before it
	message                    // a logical message outside of any transaction
	rollback                   // an abort record; of its rows nothing may arrive
)

// record is a piece of WAL, from its start to its end. Records lie side by side, so the
// end of one is the start of the next wherever there is no filler between them: that is
// how all ties of positions come about.
type record struct {
	kind       recordKind
	start, end core.LSN
	xid        uint32
	at         time.Time
	rows       []row
	gone       []int // savepoints that were rolled back
	big        bool  // it outgrew the server's memory while it ran
	prefix     string
	content    string
}

// row is one change of a transaction.
type row struct {
	op           core.Op
	table, shape int
	id, text     string
	cascade      bool
	savepoint    int // 0: in none
}

// table is a published table. Its shape is the number of columns that were added.
type table struct {
	oid   uint32
	name  string
	shape int
}

func tables() []table {
	return []table{{oid: 16384, name: "accounts"}, {oid: 16390, name: "orders"}, {oid: 16402, name: "events"}}
}

// walLog is the source's WAL. Guarded by the world's mutex.
type walLog struct {
	messages  bool // logical messages are asked for
	records   []*record
	published []int // records that must reach the sink, by index
	end       core.LSN
	xid       uint32
	tables    []table
	changed   chan struct{} // closed and replaced when a record is added
}

func newWAL(messages bool) *walLog {
	return &walLog{messages: messages, end: walBegin, xid: 700, tables: tables(), changed: make(chan struct{})}
}

// add appends a record of that length.
func (w *walLog) add(r record, length core.LSN) *record {
	const alignment = 8
	length = max((length+alignment-1)/alignment*alignment, alignment)
	r.start, r.end, r.at = w.end, w.end+length, time.Now()
	w.end = r.end
	if r.kind == commit || r.kind == rollback {
		w.xid++
		r.xid = w.xid
	}
	w.records = append(w.records, &r)
	if w.isPublished(&r) {
		w.published = append(w.published, len(w.records)-1)
	}
	close(w.changed)
	w.changed = make(chan struct{})
	return &r
}

func (w *walLog) isPublished(r *record) bool {
	switch r.kind {
	case commit:
		return len(w.visible(r)) > 0
	case message:
		return w.messages && r.prefix != core.HeartbeatPrefix
	}
	return false
}

// visible are the rows of a transaction that we asked for and that were not rolled back.
func (w *walLog) visible(r *record) []row {
	if w.messages && len(r.gone) == 0 {
		return r.rows
	}
	var list []row
	for _, one := range r.rows {
		if (w.messages || one.op != core.OpMessage) && !slices.Contains(r.gone, one.savepoint) {
			list = append(list, one)
		}
	}
	return list
}

// from is the index of the first record that starts at or behind a position.
func (w *walLog) from(at core.LSN) int {
	return sort.Search(len(w.records), func(i int) bool { return w.records[i].start >= at })
}

// successor is the first published record that ends behind a position.
func (w *walLog) successor(at core.LSN) *record {
	i := sort.Search(len(w.published), func(i int) bool { return w.records[w.published[i]].end > at })
	if i == len(w.published) {
		return nil
	}
	return w.records[w.published[i]]
}

// ending is the published record that ends exactly there.
func (w *walLog) ending(at core.LSN) *record {
	if r := w.successor(at - 1); r != nil && r.end == at {
		return r
	}
	return nil
}

// through reports whether nothing published ends behind last and at or before position.
func (w *walLog) through(last, position core.LSN) bool {
	r := w.successor(last)
	return r == nil || r.end > position
}

// lastPublished is the end of the newest record that must reach the sink; 0 for none.
func (w *walLog) lastPublished() core.LSN {
	if len(w.published) == 0 {
		return 0
	}
	return w.records[w.published[len(w.published)-1]].end
}
