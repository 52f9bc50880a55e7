package pipeline

import (
	"errors"
)

// ErrCopyInterrupted is what Run returns, with ErrAbort where that is true too, when it was
// asked to stop while an initial copy was under way. The slot is there and no position: the
// next start halts, unless it is told to copy anew.
var ErrCopyInterrupted = errors.New("stopped before the initial copy was complete")

// interrupted adds to the end of a run that was asked to stop what it leaves undone.
func (p *Pipeline) interrupted(err error) error {
	if !p.copying {
		return err
	}
	p.log.Warn("the initial copy is not complete: the slot stays and holds WAL, and the next start copies all tables anew with --snapshot-redo; without it, it halts",
		"slot", p.options.Source.Slot)
	return errors.Join(ErrCopyInterrupted, err)
}
