package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// world is one simulation: everything in it lives in one bubble and shares one mutex,
// which nobody holds while waiting.
type world struct {
	t    *testing.T
	seed uint64
	plan plan
	dir  string          // to spill to
	ctx  context.Context // of what runs on the other side of the network

	mu       sync.Mutex
	wal      *walLog
	server   *server
	sink     *sink
	rows     *rows
	weather  weather
	sidecars []*sidecar
	// durable is the highest position that was ever stored by its owner.
	durable, base core.LSN
	claims        int
	lastClaim     [16]byte
	faults        int // that a sidecar has seen
	zombies       int // calls that came after their caller had gone
	restored      bool
	lawful        map[core.HaltCode]bool
	ended         core.HaltCode // a halt that nothing but an operator can leave
	forge         func(any)     // changes what a served sink answers
	hush          string        // what no halt may show
	trace         trace
	failure       string
	failed        chan struct{}

	over     chan struct{} // closed when the simulation ends
	spawned  sync.WaitGroup
	began    time.Time
	overOnce sync.Once
}

// simulate runs body in a bubble around a fresh world and reports what went wrong.
func simulate(t *testing.T, seed uint64, p plan, body func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		w := &world{
			t: t, seed: seed, plan: p, dir: t.TempDir(), ctx: ctx, weather: calm, lawful: map[core.HaltCode]bool{},
			failed: make(chan struct{}), over: make(chan struct{}), began: time.Now(),
		}
		w.wal = newWAL(p.messages)
		w.server = newServer(w, w.rand(1))
		w.sink = newSink(w, w.rand(2))
		w.rows = &rows{w: w}
		if p.remote {
			w.sink.serving = newRemote(w)
		}
		body(w)
		w.end()
		cancel()
		w.spawned.Wait()
		if testing.Verbose() {
			t.Logf("%s in %s: %s\n%s", &p, time.Since(w.began).Round(time.Second), w.standing(), w.tally())
		}
		if *historyFlag {
			t.Log("\n" + w.trace.text(w.began))
		}
		if w.failure != "" {
			t.Errorf("seed %d (%s)\n%s\n%s", seed, &p, w.failure, w.trace.text(w.began))
			t.Fatalf("again: go test ./internal/sim -run '^%s$' -seed %d -count 10", strings.Split(t.Name(), "/")[0], seed)
		}
	})
}

// rand is a stream of chances of its own for each actor.
func (w *world) rand(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, actor)) }

func (w *world) spawn(f func()) { w.spawned.Go(f) }

// end stops everything.
func (w *world) end() {
	w.overOnce.Do(func() { close(w.over) })
	w.mu.Lock()
	sidecars := w.sidecars
	w.mu.Unlock()
	for _, c := range sidecars {
		c.stop()
	}
	for _, c := range sidecars {
		<-c.stopped
	}
	w.server.shut()
	if w.sink.serving != nil {
		w.sink.serving.stop()
	}
}

// fail notes what went wrong first; the simulation then ends. It takes no lock, as the
// judges hold it.
func (w *world) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.note("FAILED: %s", text)
	select {
	case <-w.failed:
	default:
		w.failure = text
		close(w.failed)
	}
}

// note adds to the trace.
func (w *world) note(format string, args ...any) { w.trace.add(fmt.Sprintf(format, args...)) }

// log is note for who does not hold the mutex.
func (w *world) log(format string, args ...any) { w.note(format, args...) }

// permit makes halts lawful from now on.
func (w *world) permit(codes ...core.HaltCode) {
	for _, code := range codes {
		w.lawful[code] = true
	}
}

// isOver reports whether the simulation has failed or come to an end of its own.
func (w *world) isOver() bool {
	select {
	case <-w.failed:
		return true
	case <-w.over:
		return true
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended != ""
}

// await polls until ok, and reports false when the simulation is over or the time is.
func (w *world) await(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Second) {
		if w.isOver() {
			return false
		}
		w.mu.Lock()
		good := ok()
		w.mu.Unlock()
		if good {
			return true
		}
	}
	return false
}

// settled: all that was published is durable, and the slot knows.
func (w *world) settled() bool {
	last := max(w.wal.lastPublished(), w.base)
	return w.base != 0 && w.position() >= last && w.server.slot.confirmed >= last && w.server.slot.confirmed == w.position() &&
		w.wal.successor(w.sink.row.highestEffect(w.plan.lib)) == nil
}

func (r *stored) highestEffect(lib bool) core.LSN {
	if lib {
		return r.highest
	}
	return r.last
}

// tally says how much happened.
func (w *world) tally() string {
	processes := 0
	for _, c := range w.sidecars {
		processes += c.count
	}
	return fmt.Sprintf("%d records, %d published, %d effects, %d repeats, %d claims, %d processes, %d faults seen, ended %q",
		len(w.wal.records), len(w.wal.published), w.sink.row.effects, w.sink.row.repeats, w.claims, processes, w.faults, w.ended)
}

// trace keeps the newest lines of what happened.
type trace struct {
	mu    sync.Mutex
	lines []traced
	lost  int
}

type traced struct {
	at   time.Time
	text string
}

const traceLines = 160

func (t *trace) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) >= 2*traceLines {
		t.lost += traceLines
		t.lines = append(t.lines[:0], t.lines[traceLines:]...)
	}
	t.lines = append(t.lines, traced{time.Now(), text})
}

func (t *trace) text(began time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	lines := t.lines[max(0, len(t.lines)-traceLines):]
	for _, l := range lines {
		fmt.Fprintf(&b, "%12s  %s\n", l.at.Sub(began).Round(time.Millisecond), l.text)
	}
	return b.String()
}
