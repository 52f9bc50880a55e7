package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// steady is a plan without chances, in each of the modes.
func steady() map[string]plan {
	base := plan{major: 17, sidecars: 2, messages: true, resume: true, transactions: 600, burst: 5, chaos: time.Hour}
	base.limits.PreferredBytes = 64 << 10
	plans := map[string]plan{}
	for name, change := range map[string]func(*plan){
		"transaction": func(p *plan) { p.delivery.Mode = pipeline.ModeTransaction },
		"batch":       func(p *plan) { p.delivery.Mode = pipeline.ModeBatch },
		"lib":         func(p *plan) { p.lib = true },
		"lib batched": func(p *plan) { p.lib, p.storeBatch = true, 8 },
		"gRPC":        func(p *plan) { p.delivery.Mode, p.remote = pipeline.ModeBatch, true },
		"lib gRPC":    func(p *plan) { p.lib, p.remote = true, true },
	} {
		p := base
		change(&p)
		plans[name] = p
	}
	return plans
}

// eachMode runs body in every mode; without -long in those that are named.
func eachMode(t *testing.T, body func(w *world), short ...string) {
	t.Helper()
	for name, p := range steady() {
		if *longFlag || slices.Contains(short, name) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				simulate(t, 1, p, body)
			})
		}
	}
}

// write starts the workload; what it returns ends it.
func (w *world) write() (stop func()) {
	over := make(chan struct{})
	w.spawn(func() { (&workload{w: w, rng: w.rand(4)}).run(over) })
	return func() { close(over) }
}

// state is what a sidecar shows of itself.
func (c *sidecar) state() pipeline.State {
	g := c.now()
	if g == nil {
		return ""
	}
	return g.pipeline.Status().State
}

// Two sidecars on one slot for an hour: one delivers, one waits, and neither is thrown out.
func TestTwoSidecarsForAnHour(t *testing.T) {
	short := map[time.Duration]string{0: "batch", 30 * time.Second: "lib batched"}
	for name, after := range map[string]time.Duration{"together": 0, "one after the other": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(w *world) {
				stop := w.write()
				w.addSidecar("A", 0)
				w.addSidecar("B", after)
				time.Sleep(time.Minute)
				w.mu.Lock()
				owner, claims := w.lastClaim, w.claims
				w.mu.Unlock()
				for begun := time.Now(); time.Since(begun) < time.Hour && !w.isOver(); time.Sleep(5 * time.Second) {
					standing := 0
					for _, c := range w.sidecars {
						if c.state() == pipeline.StateStandby {
							standing++
						}
					}
					w.mu.Lock()
					if standing != 1 {
						w.fail("%d sidecars stand by", standing)
					}
					if w.lastClaim != owner || w.claims != claims {
						w.fail("there was a claim although the owner is well")
					}
					w.mu.Unlock()
				}
				stop()
				w.settle(time.Minute)
				for _, c := range w.sidecars {
					if c.count != 1 && !w.isOver() {
						t.Errorf("sidecar %s has started %d times", c.letter, c.count)
					}
				}
			}, short[after])
		})
	}
}

func (w *world) settle(within time.Duration) {
	if !w.await(within, w.settled) {
		w.unless("not settled within %s", within)
	}
}

// A sidecar that freezes loses the slot once the server has missed it for
// wal_sender_timeout. The other goes on; when the first wakes up it is fenced or stands
// by, and what it still sends has no effect.
func TestTakeoverOfAFrozenSidecar(t *testing.T) {
	eachMode(t, func(w *world) {
		w.mu.Lock()
		w.permit(core.HaltFenced)
		w.mu.Unlock()
		stop := w.write()
		w.addSidecar("A", 0)
		w.addSidecar("B", 0)
		time.Sleep(2 * time.Minute)
		for round := range 3 {
			var owner *generation
			w.await(5*time.Minute, func() bool { return w.server.slot.holder != nil })
			w.mu.Lock()
			if w.server.slot.holder != nil {
				owner = w.server.slot.holder.gen
			}
			w.mu.Unlock()
			if owner == nil {
				break
			}
			time.Sleep(time.Duration(round) * 777 * time.Millisecond)
			owner.freeze(5 * time.Minute)
			const takeover = senderTimeout + 5*time.Second
			time.Sleep(takeover)
			w.mu.Lock()
			if w.server.slot.holder == nil || w.server.slot.holder.gen == owner {
				w.fail("nobody has taken over %s after %s froze", takeover, owner.name())
			}
			w.mu.Unlock()
			time.Sleep(10 * time.Minute)
			if w.isOver() {
				break
			}
		}
		stop()
		w.settle(10 * time.Minute)
	}, "transaction", "lib batched")
}

// flood writes more than a sidecar may hold.
func (w *world) flood(transactions, bytes int) {
	for i := range transactions {
		w.mu.Lock()
		w.wal.add(record{kind: commit, rows: []row{{op: core.OpInsert, id: fmt.Sprint(i), text: strings.Repeat("x", bytes)}}}, core.LSN(bytes))
		w.mu.Unlock()
	}
}

// While the sink gives no answer for an hour, status updates go out on time, and the
// sidecar holds no more of the stream than it may. Then everything is delivered.
func TestNoAnswerForAnHour(t *testing.T) {
	for name, f := range map[string]weather{
		"away": {away: true}, "not ready": {throttle: 100}, "lost": {lost: 100}, "hanging": {hang: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(w *world) {
				w.addSidecar("A", 0)
				if !w.await(time.Minute, func() bool { return w.base != 0 && w.position() != 0 }) {
					w.unless("no beginning")
				}
				time.Sleep(20 * time.Second)
				w.mu.Lock()
				w.weather = f
				w.permit(f.permits()...)
				w.mu.Unlock()
				w.flood(1000, 2<<10)
				time.Sleep(time.Hour)
				w.mu.Lock()
				w.weather = calm
				w.mu.Unlock()
				w.settle(2 * time.Hour)
			}, "batch", "lib gRPC")
		})
	}
}

// A server that shuts down waits until it hears that all of its WAL is done. An idle
// sidecar stores that position and says so, whether it is asked or not.
func TestFastShutdownIsNotHeldUp(t *testing.T) {
	eachMode(t, func(w *world) {
		w.addSidecar("A", 0)
		time.Sleep(time.Minute)
		for round := range 20 {
			w.flood(round%3, 100)
			time.Sleep(time.Duration(round) * 1234 * time.Millisecond)
			w.mu.Lock()
			w.wal.add(record{kind: filler}, 4096)
			w.mu.Unlock()
			began := time.Now()
			w.spawn(func() { w.server.restart(time.Minute, time.Second) })
			time.Sleep(time.Millisecond)
			for w.server.walsenders() > 0 && !w.isOver() {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(began); took > 2*time.Second {
				w.mu.Lock()
				w.fail("the server waited %s", took)
				w.mu.Unlock()
			}
			if !w.await(time.Minute, func() bool { return w.server.slot.holder != nil }) {
				break
			}
		}
		w.settle(5 * time.Minute)
	}, "batch", "lib")
}

// A drain waits for what is in flight, and tells Postgres before it leaves.
func TestDrainWaitsForWhatIsInFlight(t *testing.T) {
	eachMode(t, func(w *world) {
		w.addSidecar("A", 0)
		time.Sleep(time.Minute)
		for range 10 {
			w.mu.Lock()
			w.weather.slow = drainTimeout / 3
			w.mu.Unlock()
			w.flood(1, 100)
			time.Sleep(100 * time.Millisecond)
			g := w.sidecars[0].now()
			if g == nil {
				break
			}
			g.askToDrain()
			if !w.await(drainTimeout, func() bool { return !g.ended.IsZero() }) {
				w.unless("it does not drain")
			}
			w.mu.Lock()
			if last := w.wal.lastPublished(); w.server.slot.confirmed < last {
				w.fail("drained with the slot at %s, in flight was %s", w.server.slot.confirmed, last)
			}
			w.weather = calm
			w.mu.Unlock()
			time.Sleep(time.Minute)
		}
	}, "batch", "lib")
}

// A slot that stands above the checkpoint was moved by somebody else: what lies between is
// lost, so every mode halts, and nothing behind the gap has an effect.
func TestSlotMovedByOthers(t *testing.T) {
	eachMode(t, func(w *world) {
		w.addSidecar("A", 0)
		time.Sleep(time.Minute)
		w.flood(3, 100)
		time.Sleep(time.Minute)
		first := w.sidecars[0].now()
		if first == nil {
			w.unless("the sidecar is gone")
			return
		}
		first.askToDrain()
		w.await(time.Minute, func() bool { return !first.ended.IsZero() })
		w.mu.Lock()
		effects := w.sink.row.effects
		w.mu.Unlock()
		w.flood(3, 100)
		w.mu.Lock()
		w.permit(core.HaltSlotAhead)
		moved := w.wal.successor(w.position())
		if moved == nil {
			w.fail("all of the flood is stored, though nobody runs")
			w.mu.Unlock()
			return
		}
		w.server.slot.confirmed = moved.end
		w.mu.Unlock()
		time.Sleep(5 * time.Minute)
		w.mu.Lock()
		if w.sink.row.effects != effects {
			w.fail("%d transactions took effect behind the gap", w.sink.row.effects-effects)
		}
		if w.sidecars[0].halts[core.HaltSlotAhead] == 0 {
			w.fail("no halt slot_ahead")
		}
		w.mu.Unlock()
	}, "transaction", "lib batched")
}

// A paused predecessor whose sink has restarted with an empty memory: it must look at
// its row before it speaks to the new instance, or it would do again what is settled.
func TestPausedPredecessorOfALibSink(t *testing.T) {
	for _, name := range []string{"lib", "lib batched", "lib gRPC"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, 1, steady()[name], func(w *world) {
				w.mu.Lock()
				w.permit(core.HaltFenced)
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
				w.addSidecar("B", 0)
				time.Sleep(time.Minute)
				w.flood(3, 100)
				time.Sleep(time.Minute)
				w.sink.restart(0)
				paused.wake()
				time.Sleep(time.Minute)
				w.mu.Lock()
				if paused.ended.IsZero() {
					w.fail("the paused sidecar goes on")
				}
				w.mu.Unlock()
				w.settle(5 * time.Minute)
			})
		})
	}
}
