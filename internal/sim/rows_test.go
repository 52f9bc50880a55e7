package sim

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// rows is the place of the sidecar's own checkpoint row. It outlives sidecars; each has
// a door to it. Guarded by the world's mutex.
type rows struct {
	w     *world
	found bool
	row   checkpoint.Record
	shots []checkpoint.Record
}

// rowsDoor is the checkpoint.Store of one sidecar process.
type rowsDoor struct {
	rows *rows
	gen  *generation
	rng  *rand.Rand
}

var _ checkpoint.Store = (*rowsDoor)(nil)

// through carries an operation to the store and its answer back. When it is late it is
// done although its caller has been told that nobody knows.
func (d *rowsDoor) through(ctx context.Context, op string, operation func() error) error {
	w := d.rows.w
	d.gen.gate.pass()
	if err := ctx.Err(); err != nil {
		return &checkpoint.UnavailableError{Op: op, Reason: "the caller has gone"}
	}
	w.mu.Lock()
	d.gen.judgeAlive("checkpoint store " + op)
	f := w.weather
	lost, late, mute := percent(d.rng, f.storeLost), percent(d.rng, f.storeLate), percent(d.rng, f.storeLost)
	delay, pause := upTo(d.rng, f.delay), upTo(d.rng, 30*time.Millisecond)
	w.mu.Unlock()
	away := &checkpoint.UnavailableError{Op: op, Reason: "simulated"}
	locked := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return operation()
	}
	sleepOr(pause, w.over)
	switch {
	case f.storeAway, lost:
		d.gen.fault()
		return away
	case late:
		d.gen.fault()
		w.spawn(func() {
			if sleepOr(delay, w.over) {
				_ = locked()
			}
		})
		return away
	}
	err := locked()
	d.gen.gate.pass()
	if mute {
		d.gen.fault()
		return away
	}
	return err
}

// Read returns the row.
func (d *rowsDoor) Read(ctx context.Context, _ string) (r checkpoint.Record, found bool, err error) {
	err = d.through(ctx, "read", func() error {
		r, found = d.rows.row, d.rows.found
		return nil
	})
	return r, found, err
}

// Claim raises the epoch by one if it is the one that was read.
func (d *rowsDoor) Claim(ctx context.Context, c checkpoint.Claiming) (r checkpoint.Record, err error) {
	d.rows.w.mu.Lock()
	if !d.gen.held {
		d.rows.w.fail("%s claims and holds neither the slot nor the bootstrap lock", d.gen.name())
	}
	d.rows.w.mu.Unlock()
	err = d.through(ctx, "claim", func() error {
		s := d.rows
		switch {
		case s.found && s.row.Epoch == c.Read+1 && s.row.Sender == c.Sender: // it was done before
		case !s.found && c.Read == 0:
			s.found, s.row = true, checkpoint.Record{Source: c.Source, SinkName: c.SinkName, Lineage: [16]byte{1}}
			fallthrough
		case s.found && s.row.Epoch == c.Read:
			s.w.judgeClaim(c.Read+1, c.Sender)
			s.row.Epoch, s.row.Sender = c.Read+1, c.Sender
		default:
			return checkpoint.ErrOvertaken
		}
		r = s.row
		d.gen.port.sent.before = nil // what the row says now is its own judge to hold
		return nil
	})
	return r, err
}

// Advance moves the row if it is the caller's and stands where the caller left it.
func (d *rowsDoor) Advance(ctx context.Context, m checkpoint.Move) error {
	m.ResumeState = bytes.Clone(m.ResumeState)
	return d.through(ctx, "advance", func() error {
		s := d.rows
		if !s.found || s.row.Epoch != m.Epoch || s.row.Sender != m.Sender || s.row.Position != m.From {
			return checkpoint.ErrMoved
		}
		sink := &s.w.sink.row
		if m.From == 0 {
			sink.last, sink.highest = m.To, m.To
			s.w.judgeBase(m.To)
		}
		s.w.judgePosition(sink.highest, m.To)
		s.row.Position, s.row.Base = m.To, m.From
		if m.ResumeState != nil {
			s.row.ResumeState = m.ResumeState
		}
		s.w.durable = max(s.w.durable, m.To)
		if d.rng.IntN(4) == 0 {
			s.shots = append(s.shots, s.row)
		}
		return nil
	})
}

// Close is not the pipeline's to call.
func (d *rowsDoor) Close() error {
	d.rows.w.fail("the pipeline closed the checkpoint store")
	return nil
}

// position is where the owner of the checkpoint stands.
func (w *world) position() core.LSN {
	if w.plan.lib {
		return w.rows.row.Position
	}
	return w.sink.row.position
}

// restoreRows sets the sidecar's row back to a copy.
func (s *rows) restoreRows() {
	if len(s.shots) == 0 {
		return
	}
	shot := s.shots[s.w.sink.rng.IntN(len(s.shots))]
	s.w.note("store: restored from %s epoch %d to %s epoch %d", s.row.Position, s.row.Epoch, shot.Position, shot.Epoch)
	s.w.restored = true
	s.row = shot
}
