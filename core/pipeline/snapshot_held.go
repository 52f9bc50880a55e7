package pipeline

import (
	"fmt"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// showHeld shows when the stream begins or ends to wait for a copy, and tells that one was
// put off.
func (l *loop) showHeld() {
	run := l.machine.set.Run
	held, _ := run.Held()
	count := run.Counts().PutOff
	if held == l.readers.held && count == l.readers.putOffs {
		return
	}
	if count > l.readers.putOffs {
		p := l.session.pipeline
		table, until := run.PutOff()
		p.log.Warn("copy put off: the stream waited for it", "table", table,
			"max_hold", p.options.Copy.MaxHold.String(), "again_in", time.Until(until).Round(time.Second).String())
	}
	l.readers.held, l.readers.putOffs = held, count
	l.showTables()
}

// waits says what a run waits for, or what waits for it; empty for nothing.
func waits(run *incremental.Run) string {
	if table, writers := run.Waits(); len(writers) > 0 {
		return "transactions that were open when the copy of " + table + " began: " + writers[0].Who
	}
	if table, since := run.Held(); table != "" {
		return fmt.Sprintf("the stream waits for the copy of %s, which has no key, since %s", table, since.UTC().Format(time.RFC3339))
	}
	if table, until := run.PutOff(); table != "" {
		return fmt.Sprintf("the copy of %s, which has no key, was put off: the stream had waited too long for it; again at %s",
			table, until.UTC().Format(time.RFC3339))
	}
	return ""
}
