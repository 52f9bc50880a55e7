package sim

import (
	"testing"
	"time"
)

// A connection that breaks in the middle of transactions in progress, part of them on disk:
// the next session gets each from its beginning, delivers it whole, and nothing of the
// sessions before is kept.
func TestCutInsideTransactionsInProgress(t *testing.T) {
	for _, name := range []string{"transaction", "batch", "lib batched"} {
		p := steady()[name]
		p.sidecars, p.messages, p.large, p.streaming, p.resident = 1, false, true, true, 2<<10
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, 1, p, func(w *world) {
				w.addSidecar("A", 0)
				w.settle(time.Minute)
				l := &workload{w: w, rng: w.rand(4), nextID: 1}
				for round := range 30 {
					g := w.sidecars[0].now()
					if g == nil {
						w.unless("the sidecar is gone")
						return
					}
					for _, link := range g.streams() {
						if link.streams.Load() {
							link.cutAfter(toClient, int64(2000+700*round))
						}
					}
					w.mu.Lock()
					for range 3 { // the later ones are sent in part before the first ends
						r := record{kind: commit, rows: l.rows(60), big: true}
						l.savepoints(&r)
						w.wal.add(r, 64)
						w.wal.add(record{kind: commit, rows: []row{l.row(0)}}, 48)
					}
					w.mu.Unlock()
					w.settle(10 * time.Minute)
				}
				w.mu.Lock()
				if w.faults > 0 {
					w.fail("the sink was blamed %d times", w.faults)
				}
				if n := w.sidecars[0].count; n != 1 {
					w.fail("%d processes, not sessions of one", n)
				}
				w.mu.Unlock()
				g := w.sidecars[0].now()
				if g == nil {
					w.unless("the sidecar is gone")
					return
				}
				if sessions := g.pipeline.Status().Sessions; sessions < 20 {
					w.unless("only %d sessions", sessions)
				}
				if g.pipeline.Status().Streamed == 0 {
					w.unless("nothing was streamed in progress")
				}
				w.judgeRoom()
			})
		})
	}
}
