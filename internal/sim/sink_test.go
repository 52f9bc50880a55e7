package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// sink is the model of a sink. It keeps the contract to the letter, whatever the weather
// does to it; what its store holds is judged with every change. Guarded by the world's
// mutex, but for turn.
type sink struct {
	w    *world
	rng  *rand.Rand
	caps core.Capabilities
	// owned: it keeps the checkpoint. fences: it remembers instance, epoch and sequence
	// itself; behind the SDK that does it.
	owned, fences bool
	instance      uint64
	seen          bool
	epoch, seq    uint64
	turn          chan struct{} // who holds its token may write
	downUntil     time.Time
	row           stored
	shots         []stored // to be restored from
	armed         bool     // goes back at the next claim
	serving       *remote  // set when it is served over gRPC
}

// stored is what lies in the sink's store: the stream's row, and how far its rows reach.
type stored struct {
	found           bool
	position        core.LSN
	epoch           uint64
	sender          [16]byte
	lineage, resume []byte
	// last is the end of the newest effect, highest that of the furthest one.
	last, highest core.LSN
	effects       int
	repeats       int
	shapes, told  map[int]int
	by            map[int][16]byte // who delivered a table's newest row
}

// work is one writing call, as far as the model needs it.
type work struct {
	name                 string
	call                 core.Call
	expected, checkpoint core.LSN
	ends                 []core.LSN // of transactions and messages, in order
	resume               []byte
	large                bool
	told                 [][2]int // table and shape, of a schema change
}

func newSink(w *world, rng *rand.Rand) *sink {
	p := &w.plan
	s := &sink{w: w, rng: rng, owned: !p.lib, fences: p.lib && !p.remote, instance: 1, turn: make(chan struct{}, 1)}
	s.row = stored{shapes: map[int]int{}, told: map[int]int{}, by: map[int][16]byte{}}
	list := []core.Capability{core.CapTransaction, core.CapBatch}
	add := func(has bool, c core.Capability) {
		if has {
			list = append(list, c)
		}
	}
	add(s.owned, core.CapCheckpoint)
	add(p.large, core.CapLargeTransaction)
	add(p.messages, core.CapMessage)
	add(p.tellShapes, core.CapSchemaChange)
	add(s.owned && p.resume, core.CapResumeState)
	s.caps = core.Capabilities{
		Name: "simulated", Version: "1", Kind: core.StateMirror, Set: core.NewCapabilitySet(list...), Limits: p.limits,
	}
	if s.owned && !p.unfenced {
		s.caps.Fencing = append(s.caps.Fencing, core.FencingStored)
	}
	if p.lib {
		s.caps.Fencing = append(s.caps.Fencing, core.FencingInstance)
	}
	return s
}

func (s *sink) instanceID() []byte { return binary.BigEndian.AppendUint64(nil, s.instance) }

func (s *sink) isDown() bool { return time.Now().Before(s.downUntil) }

// capabilities answers GetCapabilities.
func (s *sink) capabilities() core.Capabilities {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	caps := s.caps
	caps.InstanceID = s.instanceID()
	return caps
}

// restart ends the process and starts another. Its memory is gone, its store is not. A
// call in progress dies with it; with a store that keeps the position its transaction
// may commit all the same.
func (s *sink) restart(away time.Duration) {
	s.w.mu.Lock()
	s.w.note("sink: restart, away %s", away)
	s.instance++
	s.seen, s.epoch, s.seq = false, 0, 0
	s.downUntil = time.Now().Add(away)
	if !s.owned {
		s.turn = make(chan struct{}, 1)
	}
	serving := s.serving
	s.w.mu.Unlock()
	if serving != nil {
		serving.restart(away)
	}
}

// restore sets the store back to a copy that was made before. Everything in it goes
// back, rows and position alike.
func (s *sink) restore() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if len(s.shots) == 0 {
		return
	}
	shot := s.shots[s.rng.IntN(len(s.shots))]
	s.w.note("sink: restored from %s epoch %d to %s epoch %d", s.row.position, s.row.epoch, shot.position, shot.epoch)
	s.w.restored, s.armed = true, false
	s.row = shot.clone()
}

func (r stored) clone() stored {
	r.shapes, r.told, r.by = maps.Clone(r.shapes), maps.Clone(r.told), maps.Clone(r.by)
	return r
}

// claim answers Checkpoint. A claim waits for the write in progress.
func (s *sink) claim(ctx context.Context, q core.CheckpointRequest) (core.Checkpoint, error) {
	w := s.w
	w.mu.Lock()
	unreadable, pause, failure := percent(s.rng, w.weather.unreadable), upTo(s.rng, min(w.weather.slow, 30*time.Second)), s.rng.IntN(3)
	w.mu.Unlock()
	sleepOr(pause, w.over)
	if unreadable {
		return core.Checkpoint{}, []error{
			status.Error(codes.DataLoss, "row damaged"), status.Error(codes.FailedPrecondition, "schema"),
			&core.Refusal{Reason: core.ReasonUnitRejected},
		}[failure]
	}
	if q.Claim != nil {
		leave, err := s.enter(ctx)
		if err != nil {
			return core.Checkpoint{}, err
		}
		defer leave()
	}
	w.mu.Lock()
	arm := s.armed && q.Claim != nil
	w.mu.Unlock()
	if arm { // between the read and the claim
		s.restore()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	row := &s.row
	if row.found && q.Source.SystemIdentifier != systemID {
		return core.Checkpoint{}, &core.Refusal{Reason: core.ReasonSourceMismatch}
	}
	if c := q.Claim; c != nil {
		same := c.Epoch == row.epoch && c.SenderID == row.sender
		switch {
		case c.Epoch <= row.epoch && !same:
			return core.Checkpoint{}, &core.Refusal{Reason: core.ReasonFenced}
		case !row.found:
			row.found, row.lineage = true, []byte("lineage")
		}
		if !same {
			w.judgeClaim(c.Epoch, c.SenderID)
		}
		row.epoch, row.sender = c.Epoch, c.SenderID
	}
	return core.Checkpoint{Position: row.position, Epoch: row.epoch, Lineage: row.lineage, ResumeState: bytes.Clone(row.resume)}, nil
}

// enter waits for the turn to write.
func (s *sink) enter(ctx context.Context) (leave func(), err error) {
	s.w.mu.Lock()
	turn := s.turn
	s.w.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.w.over:
		return nil, context.Canceled
	}
}

// do is a writing call, from its arrival to its answer: the position it says is stored.
func (s *sink) do(ctx context.Context, job *work) (core.LSN, error) {
	w := s.w
	w.mu.Lock()
	f, instance := w.weather, s.instance
	before, after := upTo(s.rng, f.slow), upTo(s.rng, f.slow)/2
	failure, lie := s.troubleWith(&f, job), percent(s.rng, f.lie)
	survives := s.owned && s.rng.IntN(2) == 0
	w.mu.Unlock()
	if !sleepOr(before, w.over) {
		return 0, context.Canceled
	}
	if failure != nil {
		return 0, failure
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	if !s.fences || s.passes(&job.call, &err) {
		w.mu.Lock()
		within := upTo(s.rng, w.weather.slow)/2 + upTo(s.rng, w.weather.hang)
		w.mu.Unlock()
		if !sleepOr(within, w.over) {
			err = context.Canceled
		} else {
			err = s.commit(job, instance, survives)
		}
	}
	leave()
	if err != nil {
		return 0, err
	}
	sleepOr(after, w.over)
	if lie {
		return job.checkpoint + 8, nil
	}
	return job.checkpoint, nil
}

// troubleWith draws an answer that refuses the work before it begins.
func (s *sink) troubleWith(f *weather, job *work) error {
	smaller := len(job.ends) > 1 || len(job.ends) == 1 && job.name != "HandleMessage" && s.w.plan.large && !job.large
	switch {
	case percent(s.rng, f.throttle):
		return throttled(s.rng)
	case smaller && percent(s.rng, f.tooBig):
		return status.Error(codes.ResourceExhausted, "too big")
	case percent(s.rng, f.internal):
		return status.Error(codes.Internal, "failed")
	case percent(s.rng, f.refuse):
		return &core.Refusal{Reason: core.ReasonUnitRejected}
	}
	return nil
}

// passes is the fence in memory of a sink that keeps no checkpoint.
func (s *sink) passes(call *core.Call, err *error) bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	reason := core.Reason("")
	switch {
	case !bytes.Equal(call.InstanceID, s.instanceID()):
		reason = core.ReasonInstanceChanged
	case s.seen && call.Epoch < s.epoch:
		reason = core.ReasonFenced
	case s.seen && call.Epoch == s.epoch && call.Sequence <= s.seq:
		reason = core.ReasonStaleDelivery
	}
	if reason != "" {
		*err = &core.Refusal{Reason: reason}
		return false
	}
	s.seen, s.epoch, s.seq = true, call.Epoch, call.Sequence
	return true
}

// commit is the store's transaction.
func (s *sink) commit(job *work, instance uint64, survives bool) error {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.instance != instance && !survives {
		return status.Error(codes.Unavailable, "process ended")
	}
	if s.owned {
		return s.commitOwned(job)
	}
	for _, told := range job.told {
		s.row.told[told[0]] = told[1]
	}
	for _, end := range job.ends {
		w.judgeLibEffect(&s.row, end, job.call.SenderID)
	}
	return nil
}

func (s *sink) commitOwned(job *work) error {
	w, row := s.w, &s.row
	switch {
	case job.call.Epoch < row.epoch:
		return &core.Refusal{Reason: core.ReasonFenced}
	case !row.found && !w.plan.unfenced, job.call.Epoch > row.epoch, job.expected > row.position:
		return &core.Refusal{Reason: core.ReasonCheckpointBehind}
	}
	for _, told := range job.told {
		if w.plan.unfenced { // nothing turns a late call away: what was told stays told
			told[1] = max(told[1], row.told[told[0]])
		}
		row.told[told[0]] = told[1]
	}
	if len(job.told) > 0 && !job.large {
		return nil
	}
	row.found = true
	if row.position == 0 {
		row.last = job.checkpoint
		w.judgeBase(job.checkpoint)
	}
	for _, end := range job.ends {
		if end > row.position {
			w.judgeOwnedEffect(row, end, job.call.SenderID)
		}
	}
	if job.checkpoint >= row.position && job.resume != nil {
		row.resume = job.resume
	}
	if job.checkpoint > row.position {
		w.judgePosition(row.last, job.checkpoint)
		row.position = job.checkpoint
		w.durable = max(w.durable, row.position)
		if s.rng.IntN(4) == 0 {
			s.shots = append(s.shots, row.clone())
		}
	}
	return nil
}
