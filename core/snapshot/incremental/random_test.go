package incremental_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		rng: rng, limbo: seed%3 == 1, async: seed%3 == 2, chunkRows: 2 + 4*int(seed/3%2),
		source: newSource(rng, seed%5 < 2),
	}
	if seed%4 == 1 {
		w.readers = 3 // ranges are cut ahead
	}
	if seed%7 == 0 {
		w.chunkAge = 100 * time.Millisecond // twenty turns
	}
	w.mirror.IgnoreHoles = seed%2 == 0
	armed := incremental.State{RunID: [16]byte{1}, Generation: 1, Kind: incremental.KindInitial, Floor: step}
	w.token = armed.Encode()
	w.start()
	return w
}

// start is a session: everything that was not durable is gone.
func (w *world) start() {
	state, err := incremental.Decode(w.token)
	if err != nil {
		panic(err)
	}
	w.run = incremental.New(*state, incremental.Settings{ChunkRows: w.chunkRows, Open: 3, ChunkAge: w.chunkAge, Readers: w.readers}, w.now())
	w.received, w.open, w.queue, w.flight, w.jobs = w.durable, w.durable, nil, nil, nil
}

func (w *world) now() time.Time { return time.Unix(0, w.clock) }

// turn does one random thing. calm keeps the source and the power as they are.
func (w *world) turn(calm bool) {
	w.clock += int64(5 * time.Millisecond)
	w.run.At(w.now())
	switch choice := w.rng.IntN(20); {
	case choice < 3 && !calm:
		if len(w.source.log) < 40 {
			w.source.commit(w.limbo, w.async)
		}
	case choice == 3 && !calm && w.rng.IntN(3) == 0:
		w.start()
	case choice == 4 || choice == 5:
		w.settle()
	case choice < 9:
		w.receive()
	case choice < 11:
		w.seal()
		if s := w.run.Take(); s != nil {
			w.queue = append(w.queue, unit{step: s})
		}
	case choice < 14:
		w.deliver()
	case choice < 15:
		if w.received == w.source.flushed && w.source.flushed == len(w.source.log) {
			w.run.Frontier(w.source.insertLSN())
		}
	default:
		w.work()
	}
}

// settle makes a transaction visible, or flushes.
func (w *world) settle() {
	w.source.flushed = len(w.source.log)
	for i := range w.source.log {
		if t := &w.source.log[i]; !t.visible {
			t.visible = true
			return
		}
	}
}

func (w *world) receive() {
	if w.received == w.source.flushed || len(w.queue) > 3 {
		return
	}
	t := &w.source.log[w.received]
	w.received++
	for _, o := range t.ops {
		for i := range o.streamed {
			w.run.Change(&o.streamed[i], false)
		}
	}
	w.run.Committed(t.xid, t.end)
}

// seal closes the open batch, behind the note that it needs.
func (w *world) seal() {
	if w.open == w.received {
		return
	}
	if w.run.NoteDue() {
		w.queue = append(w.queue, unit{step: w.run.Note()})
	}
	w.queue = append(w.queue, unit{to: w.received})
	w.open = w.received
}

// deliver sends the next unit, or takes its answer.
func (w *world) deliver() {
	if w.flight == nil {
		if len(w.queue) == 0 {
			w.seal()
		}
		if len(w.queue) == 0 {
			return
		}
		u := w.queue[0]
		w.queue = w.queue[1:]
		if u.step != nil {
			u.sent = w.run.Unit(u.step)
		}
		w.flight = &u
		return
	}
	u := w.flight
	w.flight = nil
	switch {
	case u.step == nil:
		for ; w.durable < u.to; w.durable++ {
			for _, o := range w.source.log[w.durable].ops {
				w.mirror.Apply(o.streamed)
			}
		}
		return
	case w.rng.IntN(30) == 0:
		if instead := w.run.TooBig(u.step); instead != nil {
			w.queue = append([]unit{{step: instead}}, w.queue...)
			return
		}
	}
	w.mirror.Snapshot(u.sent)
	w.token = u.sent.Token
	if w.rng.IntN(40) == 0 {
		w.start() // the answer is lost
		return
	}
	w.run.Stored(u.step)
}

// work goes on with the readers' jobs.
func (w *world) work() {
	if j, ok := w.run.Next(); ok && len(w.jobs) < 4 {
		w.jobs = append(w.jobs, &job{Job: j})
		return
	}
	if len(w.jobs) == 0 {
		return
	}
	i := w.rng.IntN(len(w.jobs))
	if w.job(w.jobs[i]) {
		w.jobs = append(w.jobs[:i], w.jobs[i+1:]...)
	}
}

func (w *world) job(j *job) (done bool) {
	switch j.Kind {
	case incremental.JobList:
		if err := w.run.Listed([]incremental.Member{member}, [16]byte{2}); err != nil {
			panic(err)
		}
	case incremental.JobLook:
		look := incremental.Look{ID: j.ID, Found: true, Member: member, Relation: relation}
		for i := range w.source.log {
			if t := &w.source.log[i]; !t.visible {
				look.Writers = append(look.Writers, incremental.Writer{XID: t.xid})
			}
		}
		w.run.Looked(look)
	case incremental.JobSnapshot:
		w.run.Shown(j.ID, w.snapshot(), 0)
	case incremental.JobCut:
		w.cut(j)
	case incremental.JobChunk:
		if j.read {
			j.found.High = w.source.insertLSN()
			if err := w.run.Read(j.found); err != nil {
				panic(err)
			}
			return true
		}
		if w.rng.IntN(15) == 0 {
			w.run.Failed(j.ID)
			return true
		}
		return w.readChunk(j)
	}
	return true
}

func (w *world) snapshot() incremental.Snapshot {
	s := incremental.Snapshot{Min: 10, Max: uint64(len(w.source.log) + 10)}
	for i := range w.source.log {
		if t := &w.source.log[i]; !t.visible {
			s.Running = append(s.Running, uint64(t.xid))
		}
	}
	return s
}

// readChunk takes the snapshot once it shows what it must.
func (w *world) readChunk(j *job) bool {
	s := w.snapshot()
	for _, xid := range j.Received {
		if !s.Visible(xid) {
			return false
		}
	}
	j.found = incremental.Read{ID: j.ID, Relation: relation, Snapshot: s}
	shown := w.source.at(func(_ int, t *tx) bool { return t.visible })
	for _, k := range sortedKeys(shown) {
		switch {
		case j.Keys != nil && !contains(j.Keys, k), j.Range.Lo != nil && k <= j.Range.Lo[0], j.Range.Hi != nil && k > j.Range.Hi[0]:
			continue
		case j.Keys == nil && len(j.found.Rows) == j.Rows:
			j.found.Cut = true
			continue
		case j.Keys != nil && len(j.found.Rows) > 0 && (j.found.Cut || w.rng.IntN(4) == 0): // by bytes
			j.found.Cut = true
			continue
		}
		j.found.Rows = append(j.found.Rows, core.PackTuple(core.Text(k), core.Text(shown[k].plain), core.Text(shown[k].toast)))
	}
	j.read = true
	return false
}

// cut gives keys as they are visible now, which may be others when the ranges are read.
func (w *world) cut(j *job) {
	if w.rng.IntN(8) == 0 {
		w.run.Failed(j.ID)
		return
	}
	var keys []incremental.Key
	n := 0
	for _, k := range sortedKeys(w.source.at(func(_ int, t *tx) bool { return t.visible })) {
		if j.Range.Lo != nil && k <= j.Range.Lo[0] || j.Range.Hi != nil && k > j.Range.Hi[0] {
			continue
		}
		if n++; n%j.Rows == 0 && len(keys) < j.Pieces {
			keys = append(keys, incremental.Key{k})
			w.cuts++
		}
	}
	w.run.Cut(j.ID, keys)
}

func contains(keys []incremental.Key, k string) bool {
	for _, key := range keys {
		if key[0] == k {
			return true
		}
	}
	return false
}

// wrong compares the sink with the source at the checkpoint: rows that are there, and, when
// complete is asked for, all of them.
func (w *world) wrong(complete bool) string {
	want := w.source.at(func(i int, _ *tx) bool { return i < w.durable })
	have := w.mirror.Rows("public", "t")
	for _, row := range have {
		k := string(row.Values["k"].Text)
		at, present := want[k]
		toast := row.Values["toast"]
		switch {
		case !present:
			return "key " + k + " is not at the source"
		case string(row.Values["plain"].Text) != at.plain, toast.Kind == core.ValueText && string(toast.Text) != at.toast:
			return "key " + k + " is another row at the source"
		case complete && !row.Complete():
			return "key " + k + " lacks a column"
		}
	}
	if complete && len(have) != len(want) {
		return strconv.Itoa(len(have)) + " rows of " + strconv.Itoa(len(want))
	}
	return ""
}

// seeds is enough to find each of the mistakes that the model knows.
const seeds = 300

// TestRandomSchedules: whatever happens in whatever order, no row at the sink is ever wrong,
// and the run comes to its end. REPLICANT_SEED runs one seed.
func TestRandomSchedules(t *testing.T) {
	first, last := uint64(0), uint64(seeds)
	if only := os.Getenv("REPLICANT_SEED"); only != "" {
		n, err := strconv.ParseUint(only, 10, 64)
		require.NoError(t, err)
		first, last = n, n+1
	}
	var counts incremental.Counts
	cuts := 0
	for seed := first; seed < last; seed++ {
		w := newWorld(seed)
		for i := range 4000 {
			w.turn(i > 500)
			if wrong := w.wrong(false); wrong != "" {
				t.Fatalf("seed %d, turn %d: %s", seed, i, wrong)
			}
			if i > 500 && !w.run.Active() && w.durable == len(w.source.log) {
				break
			}
		}
		require.False(t, w.run.Active(), "seed %d does not end", seed)
		require.Equal(t, len(w.source.log), w.durable, "seed %d", seed)
		require.Empty(t, w.wrong(true), "seed %d", seed)
		c := w.run.Counts()
		counts.Merged += c.Merged
		counts.Dropped += c.Dropped
		counts.Holes += c.Holes
		counts.Discarded += c.Discarded
		cuts += w.cuts
	}
	t.Logf("%+v", counts)
	if last-first > 1 {
		require.NotZero(t, counts.Merged)
		require.NotZero(t, counts.Dropped)
		require.NotZero(t, counts.Holes)
		require.NotZero(t, counts.Discarded)
		require.NotZero(t, cuts)
	}
}
