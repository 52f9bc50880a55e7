package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

var (
	seedsFlag   = flag.Int("seeds", 4, "how many seeds TestSeeds runs")
	seedFlag    = flag.Uint64("seed", 0, "the one seed to run instead")
	longFlag    = flag.Bool("long", false, "run every scenario in every mode")
	historyFlag = flag.Bool("history", false, "print what happened, also when all went well")
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.NoLeaks()) }

// TestSeeds: under the schedule of each seed all invariants hold, and once the faults
// have ended everything that was published has arrived and the slot settles.
func TestSeeds(t *testing.T) {
	first, last := uint64(1), uint64(*seedsFlag)
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			simulate(t, seed, drawPlan(seed), runSeed)
		})
	}
}

// settleWithin is how long after the last fault everything must be done: the longest
// weather may still hold a call for an hour.
const settleWithin = 3 * time.Hour

func runSeed(w *world) {
	rng := w.rand(3)
	stop := make(chan struct{})
	w.spawn(func() { (&workload{w: w, rng: w.rand(4)}).run(stop) })
	last := &workload{w: w, rng: w.rand(5), nextID: 1 << 20}
	for i := range w.plan.sidecars {
		w.addSidecar(string(rune('A'+i)), upTo(rng, time.Minute))
	}
	if !w.plan.early && !w.await(10*time.Minute, func() bool { return w.base != 0 }) {
		w.unless("the first position was not stored")
	}
	(&chaos{w: w, rng: rng}).run(w.plan.chaos)
	close(stop)
	w.mu.Lock()
	if w.restored || w.sink.armed {
		w.sink.armed = false
		last.transaction() // a store that went back shows only when something is sent
	}
	w.mu.Unlock()
	if !w.await(settleWithin, w.settled) {
		w.unless("not settled %s after the last fault", settleWithin)
	}
	w.judgeRoom()
}

// judgeRoom: once nothing is in progress, nothing is kept on disk, whatever sessions have
// ended in the middle.
func (w *world) judgeRoom() {
	for range 60 {
		var kept int64
		for _, c := range w.sidecars {
			if g := c.now(); g != nil {
				kept += g.pipeline.Status().Spilled
			}
		}
		if kept == 0 || w.isOver() {
			return
		}
		time.Sleep(time.Second)
	}
	w.unless("room on disk is not given back")
}

// unless fails, unless the simulation has ended for another reason.
func (w *world) unless(format string, args ...any) {
	if w.isOver() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(format+": %s", append(args, w.standing())...)
}

// standing is where everything stands.
func (w *world) standing() string {
	return fmt.Sprintf("published %s, stored %s, slot %s, durable %s, effects through %s",
		w.wal.lastPublished(), w.position(), w.server.slot.confirmed, w.durable, w.sink.row.last)
}
