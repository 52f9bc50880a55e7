package sim

import (
	"math/rand/v2"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// chaos is the schedule of a seed: what goes wrong, and when.
type chaos struct {
	w        *world
	rng      *rand.Rand
	restored bool
}

// run does harm for a while, then mends everything.
func (c *chaos) run(d time.Duration) {
	w := c.w
	began := time.Now()
	if w.plan.sidecars > 1 {
		w.mu.Lock()
		w.permit(core.HaltFenced) // of two, one may be overtaken
		w.mu.Unlock()
	}
	for time.Since(began) < d && !w.isOver() {
		if !sleepOr(time.Second+upTo(c.rng, 3*time.Minute), w.over) {
			return
		}
		c.step(time.Since(began) > d/2)
	}
	w.mu.Lock()
	w.weather = calm
	w.note("the faults end")
	w.mu.Unlock()
}

func (c *chaos) step(late bool) {
	w := c.w
	sidecar := w.sidecars[c.rng.IntN(len(w.sidecars))]
	g := sidecar.now()
	switch action := c.rng.IntN(20); {
	case action < 9:
		c.weather()
	case action < 10 && w.plan.remote && c.rng.IntN(2) == 0:
		w.log("network: connections to the sink are cut")
		w.sink.serving.cut()
	case action < 10:
		w.sink.restart(upTo(c.rng, time.Minute))
	case action < 11:
		w.server.crash(upTo(c.rng, 10*time.Second), upTo(c.rng, 5*time.Second))
	case action < 12:
		w.server.restart(time.Minute, upTo(c.rng, 5*time.Second))
	case action < 13 && late && w.plan.restores && !c.restored:
		c.restored = true
		if w.plan.lib {
			w.mu.Lock()
			w.rows.restoreRows()
			w.mu.Unlock()
			return
		}
		if c.rng.IntN(2) == 0 {
			w.mu.Lock()
			w.sink.armed = true
			w.mu.Unlock()
			w.server.crash(time.Second, time.Second)
			return
		}
		w.sink.restore()
	case g == nil:
	case action < 15:
		c.network(g)
	case action < 17:
		g.kill()
	case action < 18:
		g.askToDrain()
	case action < 19 && w.plan.sidecars > 1:
		g.freeze(5*time.Second + upTo(c.rng, 15*time.Minute))
	default:
		w.server.checkpoint()
	}
}

// weather lets calls go wrong for a while.
func (c *chaos) weather() {
	w := c.w
	list := weathers()
	f := list[c.rng.IntN(len(list))]
	if !w.plan.lib && (f.storeAway || f.storeLost > 0) {
		f = list[0]
	}
	span := 5*time.Second + upTo(c.rng, 8*time.Minute)
	if f.away && c.rng.IntN(4) == 0 {
		span = time.Hour
	}
	w.mu.Lock()
	w.weather = f
	w.permit(f.permits()...)
	w.note("weather: %s for %s", f.name, span.Round(time.Second))
	w.mu.Unlock()
	sleepOr(span, w.over)
	w.mu.Lock()
	w.weather = calm
	w.note("weather: calm")
	w.mu.Unlock()
}

// network cuts a connection after some bytes, or holds it up.
func (c *chaos) network(g *generation) {
	links := g.streams()
	if len(links) == 0 {
		return
	}
	l := links[c.rng.IntN(len(links))]
	for _, one := range links {
		if one.streams.Load() && c.rng.IntN(4) > 0 {
			l = one
		}
	}
	switch c.rng.IntN(4) {
	case 0:
		n := c.rng.Int64N(200)
		c.w.log("%s: network: cut after %d bytes to the server", g.name(), n)
		l.cutAfter(toServer, n)
	case 1, 2:
		n := c.rng.Int64N(4000)
		c.w.log("%s: network: cut after %d bytes to the client", g.name(), n)
		l.cutAfter(toClient, n)
	case 3:
		d, reset := upTo(c.rng, time.Minute), c.rng.IntN(2) == 0
		c.w.log("%s: network: held for %s, reset %t", g.name(), d, reset)
		l.hold(d, reset)
	}
}

// checkpoint is the server's: the slot's position reaches the disk.
func (s *server) checkpoint() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.slot.saved = s.slot.confirmed
	s.w.note("server: slot saved at %s", s.slot.saved)
}

// shut ends the server for good.
func (s *server) shut() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.phase = down
	for b := range s.backends {
		_ = b.conn.Close()
	}
}
