package pipeline

import (
	"context"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
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
		tables = append(tables, progressOf(t))
		if !t.Earlier {
			rows += int64(t.Rows)
		}
	}
	waiting := waits(run)
	p.showCopy(func(c *CopyStatus) {
		if c.Kind != copyBeside || c.Phase == CopyDone || c.Since.IsZero() {
			*c = CopyStatus{Since: l.copyShown, Failing: c.Failing}
		}
		c.Kind, c.Phase, c.Tables, c.Rows, c.Waiting = copyBeside, CopyRuns, tables, rows, waiting
		switch {
		case over:
			c.Phase, c.XminAge, c.HeldBytes = CopyDone, 0, 0
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

func progressOf(t incremental.Table) TableProgress {
	shown := TableProgress{Schema: t.Schema, Table: t.Name, State: TableCopying, Rows: int64(t.Rows), EstimatedRows: -1, SourceBytes: t.Extent.Bytes, Earlier: t.Earlier}
	switch {
	case t.Status == incremental.Pending:
		shown.State = TablePending
	case t.Status == incremental.Cancelled:
		shown.State = TablePartial
	case t.Status.Finished():
		shown.State = t.Status.String()
	}
	if t.Extent.Known {
		shown.EstimatedRows = t.Extent.Rows
	}
	return shown
}

// showCost shows what a copy beside the stream takes of the source. A chunk holds its
// snapshot for milliseconds; the copy of a table without a key holds one to its end.
func (p *Pipeline) showCost(ctx context.Context, catalog *wal.Catalog, held int64) {
	if c := p.Status().Copy; c == nil || c.Kind != copyBeside || c.Phase == CopyDone {
		return
	}
	var age int64
	if xmin := p.copyXmin.Load(); xmin != 0 {
		next, err := catalog.NextXID(ctx)
		if err != nil {
			return // shown at the next turn
		}
		age = int64(max(next, xmin) - xmin)
	}
	p.showCopy(func(c *CopyStatus) {
		if c.Phase != CopyDone {
			c.XminAge, c.HeldBytes = age, held
		}
	})
}
