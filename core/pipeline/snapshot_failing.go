package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/chunks"
)

// What cannot be read for a copy beside the stream is tried for ever, since the stream goes
// on; but not without a word.

// failingAfter failures in a row are shown. One is nothing: a table is being altered, or a
// server restarts, which the stream tells too. Of those that a lock brings about, which
// last as long as somebody holds it, it takes more.
const failingAfter, failingAfterAgain = 3, 20

// unread counts a job that came to nothing.
func (l *loop) unread(err error) {
	l.unreads++
	enough := failingAfter
	if errors.Is(err, chunks.ErrAgain) {
		enough = failingAfterAgain
	}
	if l.unreads < enough {
		return
	}
	why := fmt.Sprintf("nothing could be read for the copy: %s", err) // classified: it holds no value
	p := l.session.pipeline
	if c := p.Status().Copy; c == nil || c.Failing != why {
		p.log.Warn("copy", "failing", why, "tries", l.unreads)
	}
	p.showCopy(func(c *CopyStatus) {
		if c.Kind != copyBeside {
			*c = CopyStatus{Kind: copyBeside, Phase: CopyRuns, Since: time.Now()}
		}
		c.Failing = why
	})
}

// readable ends what unread has shown.
func (l *loop) readable() {
	l.unreads = 0
	p := l.session.pipeline
	if c := p.Status().Copy; c != nil && c.Failing != "" {
		p.log.Info("copy", "failing", "no more")
		p.showCopy(func(c *CopyStatus) { c.Failing = "" })
	}
}
