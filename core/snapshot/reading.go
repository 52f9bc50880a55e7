package snapshot

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// Reading bounds how a copy reads.
type Reading struct {
	// PartPages cuts tables into ranges of so many pages, which are read side by side.
	PartPages int64
	// Preferred and Limit are those of Batches, for each table.
	Preferred, Limit func(*Table) int
}

// Delivery is what the sink is to be given next: rows of one table, or none where it is
// empty. First is true for the first of a table, and again after Restart.
type Delivery struct {
	Table       *Table
	Batch       *Batch // nil for an empty table
	First, Last bool
}

// job is one part to be read for one attempt at its table.
type job struct {
	part    Part
	state   *tableState
	attempt int64
}

// event is what a worker has to say: a batch, the end of a part, or why it cannot go on.
type event struct {
	job   job
	batch *Batch
	err   error
}

// tableState is one table on its way. All but attempt is Reader's own.
type tableState struct {
	table   *Table
	attempt atomic.Int64 // what workers read for an earlier one is thrown away
	parts   int          // still to be read to their end
	started bool         // First was handed on
	held    *Batch       // it may be the last one
	done    bool
}

// Reader reads all tables of an adopted snapshot with several connections, and hands the
// rows on one batch at a time, tables in their order as far as the reading is that fast.
// Its methods are for one goroutine.
type Reader struct {
	exported *Exported
	o        Reading
	cancel   context.CancelFunc
	workers  sync.WaitGroup

	jobs   chan job // room for one more than each worker has
	events chan event
	free   chan *Batch

	states map[*Table]*tableState
	queue  []job
	ready  []Delivery
	left   int
}

// NewReader starts a worker for each connection of e, which must not be closed before the
// Reader is. Close must be called.
func NewReader(ctx context.Context, e *Exported, o Reading) *Reader {
	workers := len(e.conns)
	ctx, cancel := context.WithCancel(ctx)
	r := &Reader{
		exported: e, o: o, cancel: cancel, left: len(e.tables),
		jobs: make(chan job, workers), events: make(chan event, workers),
		free:   make(chan *Batch, 3*workers),
		states: map[*Table]*tableState{},
	}
	for _, t := range e.tables {
		st := &tableState{table: t}
		r.states[t] = st
		r.enqueue(st)
	}
	for _, conn := range e.conns {
		r.workers.Go(func() { r.work(ctx, conn) })
	}
	return r
}

// Close ends the workers.
func (r *Reader) Close() {
	r.cancel()
	r.workers.Wait()
}

func (r *Reader) enqueue(st *tableState) {
	parts := st.table.Parts(r.o.PartPages)
	st.parts, st.started, st.held, st.done = len(parts), false, nil, false
	for _, p := range parts {
		r.queue = append(r.queue, job{p, st, st.attempt.Load()})
	}
}

// Next gives what is to be delivered now; more is false when all tables are through. The
// batch belongs to the caller until Recycle.
func (r *Reader) Next(ctx context.Context) (d Delivery, more bool, err error) {
	if ctx.Err() != nil {
		return Delivery{}, false, context.Cause(ctx)
	}
	for len(r.ready) == 0 {
		if r.left == 0 {
			return Delivery{}, false, nil
		}
		r.handOut()
		select {
		case ev := <-r.events:
			if ev.err != nil {
				return Delivery{}, false, ev.err
			}
			r.take(ev)
		case <-ctx.Done():
			return Delivery{}, false, context.Cause(ctx)
		}
	}
	r.handOut()
	d, r.ready = r.ready[0], r.ready[1:]
	return d, true, nil
}

// handOut gives the workers what they have room for.
func (r *Reader) handOut() {
	for len(r.queue) > 0 {
		select {
		case r.jobs <- r.queue[0]:
			r.queue = r.queue[1:]
		default:
			return
		}
	}
}

func (r *Reader) take(ev event) {
	st := ev.job.state
	switch {
	case ev.job.attempt != st.attempt.Load():
		r.Recycle(ev.batch)
	case ev.batch != nil:
		if st.held != nil {
			r.deliver(st, false)
		}
		st.held = ev.batch
	default:
		if st.parts--; st.parts == 0 {
			r.deliver(st, true)
		}
	}
}

func (r *Reader) deliver(st *tableState, last bool) {
	r.ready = append(r.ready, Delivery{Table: st.table, Batch: st.held, First: !st.started, Last: last})
	st.held, st.started = nil, true
	if last {
		st.done = true
		r.left--
	}
}

// Recycle gives a batch back. Its rows are invalid afterwards.
func (r *Reader) Recycle(b *Batch) {
	if b == nil {
		return
	}
	select {
	case r.free <- b:
	default:
	}
}

// Restart reads a table from its beginning: what was handed on of it has to be removed
// by the sink, which the next delivery's First says.
func (r *Reader) Restart(t *Table) {
	st := r.states[t]
	if st.done {
		r.left++
	}
	st.attempt.Add(1)
	r.Recycle(st.held)
	kept := r.ready[:0]
	for _, d := range r.ready {
		if d.Table == t {
			r.Recycle(d.Batch)
			continue
		}
		kept = append(kept, d)
	}
	r.ready = kept
	later := r.queue
	r.queue = nil
	r.enqueue(st)
	for _, j := range later {
		if j.state != st {
			r.queue = append(r.queue, j)
		}
	}
}

// work is one connection.
func (r *Reader) work(ctx context.Context, conn *pgconn.PgConn) {
	for {
		var j job
		select {
		case j = <-r.jobs:
		case <-ctx.Done():
			return
		}
		err := r.readPart(ctx, conn, j)
		if !r.say(ctx, event{job: j, err: err}) || err != nil {
			return
		}
	}
}

func (r *Reader) readPart(ctx context.Context, conn *pgconn.PgConn, j job) error {
	batches := Batches{Part: j.part, Preferred: r.o.Preferred(j.part.Table), Limit: r.o.Limit(j.part.Table), Free: func() *Batch {
		select {
		case b := <-r.free:
			return b
		default:
			return nil
		}
	}}
	if j.attempt != j.state.attempt.Load() {
		return nil
	}
	err := batches.Read(ctx, conn, func(b *Batch) error {
		if j.attempt != j.state.attempt.Load() {
			r.Recycle(b)
			return nil
		}
		if !r.say(ctx, event{job: j, batch: b}) {
			return context.Cause(ctx)
		}
		return nil
	})
	return r.exported.source.classified(ctx, err)
}

// say hands an event on, or reports that nobody listens any more.
func (r *Reader) say(ctx context.Context, ev event) bool {
	select {
	case r.events <- ev:
		return true
	case <-ctx.Done():
		return false
	}
}
