package pipeline

import (
	"context"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// loop is the one select. It owns the Machine; pump and deliver only talk to it.
type loop struct {
	session *session
	machine *Machine
	pump    *pump
	deliver *deliverer
	// stopReading ends the pump and returns when it is gone.
	stopReading func()

	current *chunk // being given to the machine
	at      int
	ended   error // why the stream ends; acted on once the machine has all before it
	walEnd  core.LSN

	readers   *readers // nil without an incremental snapshot
	unreads   int      // jobs in a row that came to nothing
	askedAt   time.Time
	copyShown time.Time
	listedAt  time.Time

	timer     *time.Timer
	published time.Time
	unshown   bool // something changed since
}

// publishInterval bounds how often the status is replaced under load.
const publishInterval = 50 * time.Millisecond

// run streams until the stream ends, the sink's answer ends the session, a drain is
// asked for (nil), or ctx is done.
func (l *loop) run(ctx context.Context) error {
	l.timer = time.NewTimer(time.Hour)
	defer l.timer.Stop()
	defer l.reached()
	for {
		l.machine.At(time.Now())
		l.feed()
		l.tellWaived()
		if err := l.machine.Halted(); err != nil {
			return err
		}
		if l.ended != nil && l.current == nil && l.over() {
			return l.ended
		}
		if err := l.restart(); err != nil {
			return err
		}
		if work, ok := l.machine.Next(); ok {
			l.deliver.work <- work // room for one, and nothing else is in flight
		}
		if err := l.machine.Halted(); err != nil {
			return err
		}
		l.publish()
		if done, err := l.wait(ctx); done {
			return err
		}
	}
}

// wait is the select: whatever happens first changes the machine, and the turn begins
// anew. It reports done when the loop is to end.
func (l *loop) wait(ctx context.Context) (done bool, err error) {
	var input chan *chunk
	if l.current == nil && l.ended == nil && l.machine.WantsInput() {
		input = l.pump.chunks
	}
	var pieces chan core.LargeFrame
	piece, ok := l.machine.Part()
	if ok {
		pieces = l.deliver.frames
	}
	l.read()
	select {
	case l.current = <-input:
		l.at = 0
	case found := <-l.readers.results():
		if err := l.found(found); err != nil {
			return true, err
		}
	case pieces <- piece:
		_ = failpoint.Hit(failpoint.LargePart)
		if err := l.machine.PartTaken(); err != nil {
			return true, err
		}
	case r := <-l.deliver.results:
		l.machine.At(time.Now())
		if cut, ok := isPartly(r.err); ok {
			return true, l.partly(ctx, cut)
		}
		if err := l.answered(r); err != nil {
			return true, err
		}
	case <-l.alarm():
	case <-l.session.pipeline.drain:
		return true, l.drain(ctx)
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
	return false, nil
}

// over reports that nothing in flight can come to its end any more, now that the stream has
// ended.
func (l *loop) over() bool {
	return !l.machine.InFlight() || l.machine.Unfinished() && !l.machine.Replaying()
}

// feed gives the machine what it wants: of a streamed transaction that is being replayed,
// then of the current chunk.
func (l *loop) feed() {
	l.machine.Replay()
	if l.current == nil {
		return
	}
	items := l.current.items
	for l.at < len(items) && l.machine.WantsInput() {
		it := &items[l.at]
		l.at++
		if it.keepalive {
			l.walEnd = max(l.walEnd, it.walEnd)
			l.machine.Keepalive(it.walEnd, it.replyRequested)
		} else {
			l.machine.Receive(&it.msg)
		}
		if failpoint.Enabled {
			l.passed(it)
		}
	}
	if l.at < len(items) && l.machine.Halted() == nil && !l.machine.Stopping() {
		return
	}
	if halt, ok := core.AsHalt(l.current.err); ok {
		l.machine.Stop(halt)
	} else {
		l.ended = l.current.err
	}
	l.pump.free <- l.current // room for every chunk there is
	l.current = nil
}

// alarm is the channel of the timer, armed for the machine's next deadline.
func (l *loop) alarm() <-chan time.Time {
	deadline := l.runDeadline(l.machine.Deadline())
	if show := l.published.Add(publishInterval); l.unshown && (deadline.IsZero() || show.Before(deadline)) {
		deadline = show
	}
	if deadline.IsZero() {
		return nil
	}
	l.timer.Reset(max(time.Until(deadline), 0))
	return l.timer.C
}

// answered takes the sink's answer: progress, smaller units, or the end of the session.
func (l *loop) answered(r result) error {
	failed, ok := answer(r.err)
	switch {
	case r.err == nil:
		idle := l.machine.flight.idle != 0
		step := l.machine.flight.step
		stepPassed(step)
		if err := l.machine.Acked(r.ack); err != nil {
			return err
		}
		l.showRun(step)
		durable := l.machine.Confirmable()
		l.session.pipeline.doubt.progress(durable)
		if idle {
			_ = failpoint.Hit(failpoint.IdleStored)
		}
		l.session.conn.Confirm(durable)
		if idle {
			// The server may be waiting for exactly this number.
			_ = l.session.conn.Flush(l.session.ctx) // a lost connection shows at the next read
			_ = failpoint.Hit(failpoint.IdleTold)
		}
		return nil
	case ok && failed.Class == core.ClassTooBig:
		return l.machine.TooBig()
	}
	return r.err
}

// drain waits for what is in flight, tells Postgres the last number and says goodbye.
// What the sink has not been given is left to the next start.
func (l *loop) drain(ctx context.Context) error {
	l.session.pipeline.board.state(StateDraining, "")
	_ = failpoint.Hit(failpoint.DrainBegin)
	ctx, cancel := context.WithTimeout(ctx, l.session.pipeline.options.DrainTimeout)
	defer cancel()
	l.stopReading()
	for l.machine.InFlight() {
		var pieces chan core.LargeFrame
		piece, ok := l.machine.Part()
		if ok {
			pieces = l.deliver.frames
		} else if l.machine.Unfinished() {
			break // a large transaction that is not wholly here never happened
		}
		select {
		case pieces <- piece:
			if err := l.machine.PartTaken(); err != nil {
				return err
			}
		case r := <-l.deliver.results:
			if cut, ok := isPartly(r.err); ok {
				return l.partly(ctx, cut)
			}
			if r.err != nil {
				return l.leave(ctx, r.err)
			}
			if err := l.answered(r); err != nil {
				return err
			}
		case <-ctx.Done():
			if halt, ok := core.AsHalt(context.Cause(ctx)); ok {
				return halt // a goroutine of the session has panicked
			}
			return l.left("the drain timeout")
		}
	}
	return l.finish(ctx)
}

// leave ends a drain whose last unit was not stored. Nothing of it is confirmed. An
// unknown outcome is left to the next start; what would have halted the run halts it.
func (l *loop) leave(ctx context.Context, reason error) error {
	if err := l.finish(ctx); err != nil {
		return err
	}
	if l.doubtful(reason) {
		return l.left(reason.Error())
	}
	if halt, ok := core.AsHalt(l.session.pipeline.afterSession(reason)); ok {
		return halt
	}
	l.session.pipeline.log.Warn("the unit in flight was not done; the next start sends it again", "reason", reason.Error())
	return nil
}

// partly ends a drain with the part of a unit that is durable.
func (l *loop) partly(ctx context.Context, cut *partly) error {
	l.stopReading()
	if err := l.machine.PartlyAcked(cut.at); err != nil {
		return err
	}
	l.session.conn.Confirm(l.machine.Confirmable())
	return l.finish(ctx)
}

// finishTimeout bounds the goodbye: a server that does not answer is left alone, and
// finds the position in the next start.
const finishTimeout = 5 * time.Second

func (l *loop) finish(ctx context.Context) error {
	_ = failpoint.Hit(failpoint.DrainEnd)
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if err := l.session.conn.Finish(ctx); err != nil {
		l.session.pipeline.log.Warn("the last position may not have reached Postgres", "reason", err.Error())
	}
	return nil
}

// publish shows the loop's numbers, not more often than anybody can look.
func (l *loop) publish() {
	now := time.Now()
	if now.Sub(l.published) < publishInterval {
		l.unshown = true
		return
	}
	l.published, l.unshown = now, false
	m := l.machine
	l.session.pipeline.board.update(func(s *Status) {
		if durable := m.Confirmable(); durable != s.Durable || m.settled() {
			s.Durable, s.LastProgress = durable, now
		}
		s.Received, s.Confirmed, s.WALEnd = m.Received(), m.Confirmable(), max(l.walEnd, m.Received(), core.LSN(l.session.pipeline.heard.Load()))
		s.LagBytes = int64(s.WALEnd - s.Durable)
		s.Counters = l.session.pipeline.totals.plus(m.Count())
		s.InFlight = m.InFlight()
		s.InProgress, s.Spilled = l.session.inProgress(m)
		s.LagSeconds = 0
		if oldest := m.oldestCommit(); !oldest.IsZero() {
			s.LagSeconds = max(now.Sub(oldest).Seconds(), 0)
		}
		s.State, s.Reason = StateStreaming, ""
		if s.LagBytes > catchingUpBytes {
			s.State = StateCatchingUp
		}
		if m.waitsForTables() {
			s.State, s.Reason = StateCatchingUp, "a transaction that may have been delivered before waits for a look at the tables of the publications"
		}
		if w := l.session.pipeline.waiting.Load(); w != nil {
			s.State, s.Reason = w.state, w.reason
		}
	})
}

// reached shows the positions at the end: failures are counted by the unit that they are
// of, which these tell apart.
func (l *loop) reached() {
	l.session.pipeline.board.update(func(s *Status) {
		s.Received, s.Durable, s.Confirmed = l.machine.Received(), l.machine.Confirmable(), l.machine.Confirmable()
	})
}

// catchingUpBytes of lag is where streaming is called catching up.
const catchingUpBytes = 16 << 20
