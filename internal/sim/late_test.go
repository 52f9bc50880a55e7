package sim

import (
	"testing"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// A sink that is a zombie: what it was asked to do it does long after the deadline, when
// the sidecar has asked where it stands and has sent the same again. Nothing takes effect
// twice where the sink keeps the position; where it does not, the fence in its memory
// turns the late call away.
func TestLateCommitsTakeNoEffectTwice(t *testing.T) {
	inModes(t, []string{"transaction", "batch", "unfenced", "lib", "lib batched"}, func(w *world) {
		w.addSidecar("A", 0)
		if !w.await(time.Minute, func() bool { return w.base != 0 && w.position() != 0 }) {
			w.unless("no beginning")
			return
		}
		for range 6 {
			w.mu.Lock()
			w.weather = weather{name: "zombie", late: 100, delay: 20 * time.Minute}
			w.permit(w.weather.permits()...)
			w.mu.Unlock()
			w.flood(4, 100)
			time.Sleep(20 * time.Second)
			w.mu.Lock()
			w.weather = calm
			w.mu.Unlock()
			w.flood(4, 100)
			time.Sleep(30 * time.Minute)
		}
		w.settle(time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.zombies < 6 {
			w.fail("only %d calls came late", w.zombies)
		}
		if w.sink.row.repeats > 0 {
			w.fail("%d effects are there twice", w.sink.row.repeats)
		}
	})
}

// A predecessor that was paused with a call on its way wakes when another owns the stream:
// the call finds a higher epoch and has no effect, though all that it carries is due.
func TestPausedPredecessorOfAnOwningSink(t *testing.T) {
	inModes(t, []string{"transaction", "batch", "gRPC"}, func(w *world) {
		w.mu.Lock()
		w.permit(core.HaltFenced, core.HaltSinkUnknown)
		w.mu.Unlock()
		w.addSidecar("A", 0)
		time.Sleep(30 * time.Second)
		paused := w.sidecars[0].now()
		if paused == nil {
			w.unless("the sidecar is gone")
			return
		}
		paused.freezeAtCall()
		w.flood(1, 100)
		w.mu.Lock()
		w.weather = weather{name: "slow", slow: time.Hour} // what the next owner sends does not come first
		claims := w.claims
		w.mu.Unlock()
		w.addSidecar("B", 0)
		if !w.await(5*time.Minute, func() bool { return w.claims > claims }) {
			w.unless("nobody takes over")
		}
		w.mu.Lock()
		w.weather = calm
		w.mu.Unlock()
		paused.wake()
		w.settle(3 * time.Hour)
	})
}

// A checkpoint that cannot be read is not an empty one: the start halts, at the first start
// as at any other, and nothing is made or moved.
func TestUnreadableCheckpointBeginsNothing(t *testing.T) {
	inModes(t, []string{"transaction", "batch", "gRPC"}, func(w *world) {
		unreadable := weather{name: "unreadable", unreadable: 100}
		w.mu.Lock()
		w.weather = unreadable
		w.permit(core.HaltCheckpointUnreadable)
		w.mu.Unlock()
		w.addSidecar("A", 0)
		halts := func(n int) func() bool {
			return func() bool { return w.sidecars[0].halts[core.HaltCheckpointUnreadable] >= n }
		}
		if !w.await(time.Hour, halts(2)) {
			w.unless("no halt at the first start")
		}
		w.mu.Lock()
		if w.server.slot.present || w.claims != 0 {
			w.fail("a slot or a claim, and nothing could be read")
		}
		w.weather = calm
		w.mu.Unlock()
		w.flood(3, 100)
		w.settle(5 * time.Minute)
		w.mu.Lock()
		w.weather = unreadable
		before, claims := w.position(), w.claims
		w.mu.Unlock()
		if g := w.sidecars[0].now(); g != nil {
			for _, l := range g.streams() {
				l.cut()
			}
		}
		w.flood(3, 100)
		if !w.await(time.Hour, halts(4)) {
			w.unless("no halt at a later start")
		}
		w.mu.Lock()
		if w.position() != before || w.claims != claims {
			w.fail("something moved, and nothing could be read")
		}
		w.weather = calm
		w.mu.Unlock()
		w.settle(5 * time.Minute)
	})
}

// inModes runs body in some modes, for what only they can meet.
func inModes(t *testing.T, modes []string, body func(w *world)) {
	t.Helper()
	for _, name := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := steady()[name]
			if name == "unfenced" { // neither is the sidecar asked to claim
				p = steady()["batch"]
				p.unfenced = true
			}
			simulate(t, 1, p, body)
		})
	}
}
