package pipeline

import (
	"errors"
	"fmt"
)

// ErrLeftOpen is what Run returns when a drain had to leave a unit without knowing whether
// it was done. Nothing of it is confirmed, and nothing is lost: the next start asks where
// the checkpoint stands and sends what lies above it.
var ErrLeftOpen = errors.New("stopped with a unit left open")

// left ends a drain that cannot wait any longer.
func (l *loop) left(reason string) error {
	what := l.machine.flight.String()
	l.session.pipeline.log.Warn("drain left a unit open", "unit", what, "reason", reason)
	return leftOpen(what)
}

func leftOpen(what string) error {
	return fmt.Errorf("%w: %s may be done or not; the next start finds out", ErrLeftOpen, what)
}

// doubtful reports that the session ends, by err, with a unit of unknown outcome. A call
// of a mode with a store of ours hides the outcomes of its earlier tries.
func (l *loop) doubtful(err error) bool {
	if !l.machine.InFlight() || l.machine.Unfinished() || isHalt(err) {
		return false
	}
	failed, ok := answer(err)
	return !ok || l.session.pipeline.options.Store != nil || failed.Unknown() && !failed.NeverSent
}

// drained is the end of a run that was asked to stop.
func (p *Pipeline) drained() error {
	if p.open == "" {
		return nil
	}
	return leftOpen(p.open)
}

// String names a unit without its content.
func (e *entry) String() string {
	switch {
	case e.step != nil:
		return "a unit of the snapshot"
	case e.schema != nil:
		return "a schema change"
	}
	to, _ := e.checkpoint()
	return "the unit to " + to.String()
}
