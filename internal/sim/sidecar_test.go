package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
)

// sidecar is a place where a sidecar process runs, and its supervisor.
type sidecar struct {
	w       *world
	letter  string
	rng     *rand.Rand
	mu      sync.Mutex
	current *generation
	stopped chan struct{}
	leaving bool
	count   int
	halts   map[core.HaltCode]int // guarded by the world's mutex
}

// generation is one process.
type generation struct {
	*sidecar
	number   int
	gate     valve // shut while the process is frozen
	frozen   bool  // ever
	pipeline *pipeline.Pipeline
	cancel   context.CancelFunc
	port     *port
	links    []*link
	// Guarded by the world's mutex.
	held   bool // has the slot or the bootstrap lock, as of this session
	sender [16]byte
	ended  time.Time // when Run returned
	drain  time.Time // when Drain was called
	seen   int       // faults that this process has seen
	well   int       // as many at the drain, if all was well then; otherwise -1
	killed bool
	atCall bool // freezes at its next writing call
}

func (w *world) addSidecar(letter string, after time.Duration) *sidecar {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &sidecar{w: w, letter: letter, rng: w.rand(100 + uint64(letter[0])), stopped: make(chan struct{}), halts: map[core.HaltCode]int{}}
	w.sidecars = append(w.sidecars, c)
	w.spawn(func() {
		defer close(c.stopped)
		if sleepOr(after, w.over) {
			c.live()
		}
	})
	return c
}

// live starts one process after the other until the simulation ends.
func (c *sidecar) live() {
	for !c.w.isOver() {
		g, ctx := c.start()
		if g == nil {
			return
		}
		err := g.pipeline.Run(ctx)
		g.finish(err)
		if !sleepOr(time.Second+upTo(c.rng, 20*time.Second), c.w.over) {
			return
		}
	}
}

func (c *sidecar) start() (*generation, context.Context) {
	w := c.w
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving {
		return nil, nil
	}
	c.count++
	g := &generation{sidecar: c, number: c.count}
	g.port = &port{g: g, rng: rand.New(rand.NewPCG(w.seed, uint64(c.letter[0])<<20+uint64(c.count)))}
	o := w.options(g)
	if w.plan.remote {
		far, err := remotesink.New(remotesink.Options{Address: "localhost:1", DialContext: w.sink.serving.dial(g)})
		if err != nil {
			w.fail("%v", err)
			return nil, nil
		}
		g.port.far = far
	}
	p, err := pipeline.New(o)
	if err != nil {
		w.fail("%v", err)
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.pipeline, g.cancel, c.current = p, cancel, g
	w.log("%s: starts", g.name())
	w.spawn(g.watch)
	return g, ctx
}

func (w *world) options(g *generation) pipeline.Options {
	o := pipeline.Options{
		Source: wal.Options{
			DSN: waltest.DSN, Slot: slotName, Publications: []string{"p"}, Messages: w.plan.messages,
			DialFunc: g.dial, NoNap: true,
		},
		Sink: g.port, Delivery: w.plan.delivery, GoForwardOnly: true, NoHeartbeat: w.plan.quiet,
		DrainTimeout: drainTimeout,
	}
	if w.plan.streaming {
		o.Source.Streaming = true
		o.Spill = pipeline.Spilling{Dir: filepath.Join(w.dir, g.letter), Resident: w.plan.resident}
	}
	if w.plan.lib {
		o.Store, o.StoreBatch = &rowsDoor{rows: w.rows, gen: g, rng: g.port.rng}, w.plan.storeBatch
	}
	return o
}

const drainTimeout = 10 * time.Second

func (g *generation) name() string { return fmt.Sprintf("%s%d", g.letter, g.number) }

// finish judges how Run came back.
func (g *generation) finish(err error) {
	g.cancel()
	if g.port.far != nil {
		_ = g.port.far.Close()
	}
	w := g.w
	w.mu.Lock()
	defer w.mu.Unlock()
	g.judgeSpill()
	g.ended = time.Now()
	halt, halted := core.AsHalt(err)
	switch {
	case halted:
		w.note("%s: halted: %v", g.name(), halt)
		g.halts[halt.Code]++
		if w.hush != "" && strings.Contains(halt.Error()+g.pipeline.Status().Reason+g.pipeline.Status().LastError, w.hush) {
			w.fail("%s: a halt shows what the sink sent: %v", g.name(), halt)
		}
		g.judgeHalt(halt)
	case errors.Is(err, pipeline.ErrAbort):
		w.note("%s: aborted", g.name())
		if !g.killed {
			w.fail("%s: aborted by itself", g.name())
		}
	case err == nil, errors.Is(err, pipeline.ErrLeftOpen):
		w.note("%s: drained: %v", g.name(), err)
		if g.drain.IsZero() {
			w.fail("%s: Run returned nil and no drain was asked for", g.name())
		}
		if limit := drainTimeout + 10*time.Second; !g.frozen && time.Since(g.drain) > limit {
			w.fail("%s: the drain took %s", g.name(), time.Since(g.drain))
		}
		if g.well == g.seen && !g.frozen && time.Since(g.drain) < drainTimeout && w.server.slot.confirmed != w.position() {
			w.fail("%s: drained in peace, and the slot stands at %s, the checkpoint at %s", g.name(), w.server.slot.confirmed, w.position())
		}
	default:
		w.fail("%s: %v (%T)", g.name(), err, err)
	}
}

// judgeSpill: a process that has ended leaves no file behind.
func (g *generation) judgeSpill() {
	_ = filepath.WalkDir(filepath.Join(g.w.dir, g.letter), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && entry.Name() != "lock" {
			g.w.fail("%s: leaves the file %s", g.name(), entry.Name())
		}
		return err
	})
}

// judgeHalt: a halt must have its reason in what happened. Some can only be left by an
// operator, and end the simulation.
func (g *generation) judgeHalt(halt *core.Halt) {
	w := g.w
	ahead := w.server.slot.confirmed > w.position()
	switch {
	case w.restored && halt.Code == core.HaltSlotAhead && ahead, w.restored && w.plan.lib && halt.Code == core.HaltStoreRegress:
		w.ended = halt.Code
	case halt.Code == core.HaltSinkUnknown || halt.Code == core.HaltSinkFailed:
		if !w.lawful[halt.Code] || halt.Op == "GetCapabilities" || halt.Op == "Checkpoint" {
			w.fail("%s: no unit was in doubt: %v", g.name(), halt)
		}
	case w.lawful[halt.Code]:
	default:
		w.fail("%s: halted without a reason: %v", g.name(), halt)
	}
}

// judgeAlive: a process whose Run has returned does nothing more (I8).
func (g *generation) judgeAlive(what string) {
	if !g.ended.IsZero() {
		g.w.fail("I8: %s sends %s after its end", g.name(), what)
	}
}

// fault counts what a sidecar has seen go wrong.
func (g *generation) fault() {
	g.w.mu.Lock()
	g.seen++
	g.w.faults++
	g.w.mu.Unlock()
}

func (g *generation) addLink(l *link) {
	g.sidecar.mu.Lock()
	defer g.sidecar.mu.Unlock()
	kept := g.links[:0]
	for _, old := range g.links {
		if !old.gone.Load() {
			kept = append(kept, old)
		}
	}
	g.links = append(kept, l)
}

// statusMax is the longest time between two status updates, a third of
// wal_sender_timeout, with a little for the clock.
const statusMax = senderTimeout/3 + 100*time.Millisecond

// watch looks at the process from outside: status updates go out on time whatever the
// sink does, and the heights that it shows keep their order (I2, I3).
func (g *generation) watch() {
	var before pipeline.Status
	for sleepOr(500*time.Millisecond, g.w.over) {
		g.sidecar.mu.Lock()
		links := append([]*link(nil), g.links...)
		g.sidecar.mu.Unlock()
		g.w.mu.Lock()
		if !g.ended.IsZero() {
			g.w.mu.Unlock()
			return
		}
		if !g.frozen {
			for _, l := range links {
				g.judgePunctual(l)
			}
		}
		now := g.pipeline.Status()
		if now.Confirmed > now.Durable || now.Durable > now.Received && now.Received != 0 {
			g.w.fail("I2: %s shows received %s, durable %s, confirmed %s", g.name(), now.Received, now.Durable, now.Confirmed)
		}
		if now.Sessions == before.Sessions && now.Durable < before.Durable {
			g.w.fail("I3: %s shows durable %s after %s", g.name(), now.Durable, before.Durable)
		}
		before = now
		g.w.mu.Unlock()
	}
}

func (g *generation) judgePunctual(l *link) {
	if !l.streams.Load() || l.gone.Load() || l.stuck.Load() {
		return
	}
	if silent := time.Since(time.Unix(0, l.wrote.Load())); silent > statusMax {
		g.w.fail("%s: no status update for %s", g.name(), silent)
	}
}

// now is the process that runs, or nil.
func (c *sidecar) now() *generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if !c.current.ended.IsZero() {
		return nil
	}
	return c.current
}

// kill ends the process in the middle of whatever it does.
func (g *generation) kill() {
	g.w.mu.Lock()
	g.killed = true
	g.w.note("%s: killed", g.name())
	g.w.mu.Unlock()
	for _, l := range g.streams() {
		l.cut()
	}
	g.gate.open()
	g.cancel()
}

// streams are the connections of the process.
func (g *generation) streams() []*link {
	g.sidecar.mu.Lock()
	defer g.sidecar.mu.Unlock()
	return append([]*link(nil), g.links...)
}

// askToDrain asks for a clean stop.
func (g *generation) askToDrain() {
	g.w.mu.Lock()
	g.drain, g.well = time.Now(), -1
	holder := g.w.server.slot.holder
	if holder != nil && holder.gen == g && !g.w.restored && g.w.weather.name == calm.name && g.w.server.phase == up && !g.stuck() {
		g.well = g.seen
	}
	g.w.note("%s: drain", g.name())
	g.w.mu.Unlock()
	g.pipeline.Drain()
}

// stuck reports whether a connection of the process was ever held up or is to be cut.
func (g *generation) stuck() bool {
	g.sidecar.mu.Lock()
	defer g.sidecar.mu.Unlock()
	return slices.ContainsFunc(g.links, func(l *link) bool {
		return l.stuck.Load() || l.left[toServer].Load() < endless/2 || l.left[toClient].Load() < endless/2
	})
}

// freeze stops the process for a while, as a debugger or a full machine does.
func (g *generation) freeze(d time.Duration) {
	g.w.mu.Lock()
	g.frozen = true
	g.w.note("%s: frozen for %s", g.name(), d)
	g.w.mu.Unlock()
	g.gate.close()
	time.AfterFunc(d, func() {
		g.w.log("%s: wakes", g.name())
		g.gate.open()
	})
}

// freezeAtCall freezes the process when it next makes a writing call: the call is on its
// way, and comes when the process wakes.
func (g *generation) freezeAtCall() {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.frozen, g.atCall = true, true
}

func (g *generation) wake() {
	g.w.log("%s: wakes", g.name())
	g.gate.open()
}

// stop ends the sidecar for good.
func (c *sidecar) stop() {
	c.mu.Lock()
	c.leaving = true
	g := c.current
	c.mu.Unlock()
	if g != nil {
		g.kill()
	}
}
