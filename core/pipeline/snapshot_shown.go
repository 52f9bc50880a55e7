package pipeline

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// showBegun shows a run of before that is not over, and later what it waits for, though no
// step of it comes to its end.
func (l *loop) showBegun() {
	run := l.machine.set.Run
	due := l.copyShown.IsZero() || run.Active() && time.Since(l.copyShown) >= copyShowInterval
	if due && (run.Active() || run.Paused()) && run.Known() {
		l.showTables()
	}
}

// showRun shows how far the run is, and tells its end. It is called behind every answer.
func (l *loop) showRun(step *incremental.Step) {
	defer l.stored(step) // whoever asked for it sees it
	if step == nil {
		return
	}
	run := l.machine.set.Run
	l.readers.running = l.readers.running || run.Active()
	if run.Active() && !l.asked(step) && time.Since(l.copyShown) < copyShowInterval {
		return
	}
	l.showTables()
}

func (l *loop) showTables() {
	p, run := l.session.pipeline, l.machine.set.Run
	over := !run.Active() && !run.Paused()
	l.copyShown = time.Now()
	var tables []TableProgress
	var rows int64
	for _, t := range run.Tables() {
		state := TableCopying
		switch {
		case t.Status == incremental.Pending:
			state = TablePending
		case t.Status == incremental.Cancelled:
			state = TablePartial
		case t.Status.Finished():
			state = t.Status.String()
		}
		tables = append(tables, TableProgress{Schema: t.Schema, Table: t.Name, State: state, Rows: int64(t.Rows), EstimatedRows: -1})
		rows += int64(t.Rows)
	}
	waiting := waits(run)
	p.showCopy(func(c *CopyStatus) {
		c.Kind, c.Phase, c.Tables, c.Rows, c.Waiting = "incremental", CopyRuns, tables, rows, waiting
		switch {
		case over:
			c.Phase = CopyDone
		case run.Paused():
			c.Phase = CopyPaused
		}
	})
	if over && l.readers.running {
		l.readers.running = false
		count := run.Counts()
		p.log.Info("snapshot complete", "tables", len(tables), "rows", rows, "chunks", count.Chunks, "discarded", count.Discarded,
			"merged", count.Merged, "dropped", count.Dropped)
	}
}
