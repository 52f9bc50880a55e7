package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// manifest remembers what a sidecar process has sent, to hold the next call against it:
// within a session positions rise, a unit comes again only unchanged or smaller, and
// after an outcome that nobody knows nothing comes at all until the next claim (I4, I5).
// With a checkpoint of the sidecar's own the same work comes again instead.
type manifest struct {
	sequence uint64
	claimed  core.LSN // what the last claim returned
	before   *work
	outcome  outcome
	fresh    bool // no unit since the claim
	epoch    uint64
	at       time.Time // of the last answer
	hasty    int       // calls in a row that came at once after a failure
}

type outcome uint8

const (
	done outcome = iota
	notDone
	tooBig
	unknown
	refused
)

func outcomeOf(err error) outcome {
	var failed *core.SinkError
	if !errors.As(err, &failed) {
		if err == nil {
			return done
		}
		return refused
	}
	switch {
	case failed.Unknown():
		return unknown
	case failed.Class == core.ClassThrottled, failed.Class == core.ClassUnauthorized:
		return notDone
	case failed.Class == core.ClassTooBig:
		return tooBig
	case failed.Reason == core.ReasonInstanceChanged, failed.Reason == core.ReasonStaleDelivery:
		return unknown // the same work again, for a new instance
	}
	return refused
}

// asked is an answer to Checkpoint: a session begins.
func (m *manifest) asked(claim bool, position core.LSN, ok bool) {
	if ok {
		m.before, m.fresh = nil, true
		if claim {
			m.claimed = position
		}
	}
}

// judgeSequence: the attempts of one process are numbered, each higher than the last.
func (m *manifest) judgeSequence(g *generation, call *core.Call) {
	if call.Sequence <= m.sequence {
		g.w.fail("%s: sequence %d after %d", g.name(), call.Sequence, m.sequence)
	}
	m.sequence = call.Sequence
	if g.sender == ([16]byte{}) {
		g.sender = call.SenderID
	}
	if call.SenderID != g.sender || call.StreamID != slotName {
		g.w.fail("%s: a call of another sender or stream", g.name())
	}
}

// judge holds a writing call against the one before it.
func (m *manifest) judge(g *generation, job *work) {
	w := g.w
	w.note("%s: %s #%d epoch %d, %d through %s", g.name(), job.name, job.call.Sequence, job.call.Epoch, len(job.ends), job.checkpoint)
	if !job.large {
		m.judgeSequence(g, &job.call)
	}
	if len(job.told) > 0 && !job.large {
		return // moves nothing
	}
	if w.plan.lib && job.call.Epoch != m.epoch {
		m.before = nil // what the store said is the store's judge to hold
	}
	m.epoch = job.call.Epoch
	if m.outcome == unknown && time.Since(m.at) < 50*time.Millisecond {
		if m.hasty++; m.hasty > 3 {
			w.fail("%s hammers the sink: %d calls in a row right after a failure", g.name(), m.hasty)
		}
	} else {
		m.hasty = 0
	}
	if !slices.IsSorted(job.ends) || len(job.ends) > 0 && job.ends[len(job.ends)-1] != job.checkpoint {
		w.fail("I4: ends %v, checkpoint %s", job.ends, job.checkpoint)
	}
	switch before := m.before; {
	case before == nil:
		if !w.plan.lib && m.fresh && !w.plan.unfenced && job.expected != m.claimed {
			w.fail("%s expects %s, the claim returned %s", job.name, job.expected, m.claimed)
		}
	case m.outcome == done:
		if job.expected != before.checkpoint && !w.plan.lib {
			w.fail("%s expects %s, durable is %s", job.name, job.expected, before.checkpoint)
		}
		if job.checkpoint <= before.checkpoint || len(job.ends) > 0 && job.ends[0] <= before.checkpoint {
			w.fail("I4: %v through %s after %s", job.ends, job.checkpoint, before.checkpoint)
		}
	case m.outcome == notDone, m.outcome == unknown && w.plan.lib:
		if job.checkpoint != before.checkpoint || !slices.Equal(job.ends, before.ends) || job.name != before.name {
			w.fail("I5: after a unit that was not done, %v came as %v", before.ends, job.ends)
		}
	case m.outcome == tooBig:
		smaller := len(job.ends) < len(before.ends) || job.large || w.plan.lib
		if !smaller || !slices.Equal(job.ends, before.ends[:len(job.ends)]) {
			w.fail("I5: after a unit that was too large, %v came as %v", before.ends, job.ends)
		}
	default:
		w.fail("I5: %s in the session whose last call ended as %d", job.name, m.outcome)
	}
	m.before, m.fresh = job, false
}

func (m *manifest) answered(job *work, err error) {
	if len(job.told) > 0 && !job.large {
		if err != nil {
			m.before = nil // the session ends or the same comes again
		}
		return
	}
	m.outcome, m.at = outcomeOf(err), time.Now()
}
