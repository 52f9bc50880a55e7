package pipeline

import (
	"context"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
)

// copyWatch looks after what a copy stands on and what it costs: the session that made
// the slot, the slot itself, the bootstrap lock, the age of the snapshot, the WAL held.
type copyWatch struct {
	session *session
	xmin    uint64
	lone    bool // the session that made the slot is gone
}

// run ends the copy with the first thing that is wrong, or when ctx is done. Questions are
// asked under the session's own context: one that was cut off by the end of the copy would
// take the connection with it that holds the bootstrap lock.
func (w *copyWatch) run(ctx, session context.Context, end context.CancelCauseFunc) {
	for {
		if err := w.look(session); err != nil && ctx.Err() == nil {
			end(err)
			return
		}
		if !sleep(ctx, w.session.pipeline.options.GuardInterval) {
			return
		}
	}
}

// look asks everything once. The catalog's own connection holds the bootstrap lock: if it
// is lost, the first question fails.
func (w *copyWatch) look(ctx context.Context) error {
	s := w.session
	p := s.pipeline
	slot, err := asked(ctx, s.slot)
	if err != nil {
		return err
	}
	if err := s.conn.Check(ctx); err != nil && !w.lone {
		// The readers have adopted its snapshot and hold it themselves; the stream begins on
		// another connection, at the same point.
		w.lone = true
		p.log.Warn("the connection that made the slot is lost; the copy goes on under its snapshot", "reason", err.Error())
	}
	switch {
	case !slot.Present:
		return core.NewHalt(core.HaltSnapshotIncomplete, "watch", "somebody has dropped the slot while tables were copied")
	case slot.Active:
		return core.NewHalt(core.HaltSnapshotIncomplete, "watch", "process %d of the server has taken the slot while tables were copied", slot.ActivePID)
	}
	if obstacle := slot.Obstacle(); obstacle != nil {
		return obstacle
	}
	now, err := asked(ctx, s.catalog.CurrentLSN)
	if err != nil {
		return err
	}
	next, err := asked(ctx, s.catalog.NextXID)
	if err != nil {
		return err
	}
	age, held := int64(max(next, w.xmin)-w.xmin), int64(max(now, slot.RestartLSN)-slot.RestartLSN)
	guard := watchSlot(slot, 0, now, 0)
	p.board.update(func(st *Status) { st.Guard = guard })
	p.showCopy(func(c *CopyStatus) { c.XminAge, c.HeldBytes = age, held })
	switch limits := p.options.Copy; {
	case limits.MaxXminAge > 0 && age > limits.MaxXminAge:
		return core.NewHalt(core.HaltSnapshotLimit, "watch", "the snapshot is %d transactions old, copy.max_xmin_age is %d", age, limits.MaxXminAge)
	case limits.MaxHeld > 0 && held > limits.MaxHeld:
		return core.NewHalt(core.HaltSnapshotLimit, "watch", "the slot keeps %d bytes of WAL, copy.max_held is %d", held, limits.MaxHeld)
	}
	return nil
}

// copyProgress counts what was delivered and shows it, not more often than anybody looks.
type copyProgress struct {
	pipeline *Pipeline
	tables   []TableProgress
	index    map[*snapshot.Table]int
	shown    time.Time
	told     time.Time
}

// Intervals of the progress of a copy: in the status, and as lines of the log.
const (
	copyShowInterval = 200 * time.Millisecond
	copyTellInterval = 10 * time.Second
)

func newCopyProgress(p *Pipeline, tables []*snapshot.Table) *copyProgress {
	c := &copyProgress{pipeline: p, index: map[*snapshot.Table]int{}, told: time.Now()}
	for i, t := range tables {
		c.index[t] = i
		c.tables = append(c.tables, TableProgress{
			Schema: t.Relation.Schema, Table: t.Relation.Name, State: TablePending,
			EstimatedRows: t.EstimatedRows(), SourceBytes: t.EstimatedBytes(),
		})
	}
	p.showCopy(func(st *CopyStatus) { st.Phase, st.Waiting = CopyRuns, "" })
	c.show(true)
	return c
}

func (c *copyProgress) delivered(d snapshot.Delivery) {
	t := &c.tables[c.index[d.Table]]
	t.State = TableCopying
	if d.Batch != nil {
		t.Rows, t.Bytes = t.Rows+int64(len(d.Batch.Rows)), t.Bytes+int64(d.Batch.Bytes)
	}
	if d.Last {
		t.State = TableDone
		c.pipeline.log.Info("table copied", "table", d.Table.String(), "rows", t.Rows, "bytes", t.Bytes)
	}
	c.show(false)
	if time.Since(c.told) >= copyTellInterval {
		c.told = time.Now()
		c.pipeline.log.Info("copying", "table", d.Table.String(), "rows", t.Rows, "estimated_rows", t.EstimatedRows)
	}
}

func (c *copyProgress) restarted(table *snapshot.Table) {
	t := &c.tables[c.index[table]]
	t.State, t.Rows, t.Bytes = TablePending, 0, 0
	t.Restarts++
	c.show(true)
}

func (c *copyProgress) show(now bool) {
	if !now && time.Since(c.shown) < copyShowInterval {
		return
	}
	c.shown = time.Now()
	tables := append([]TableProgress(nil), c.tables...)
	var rows, bytes int64
	for i := range tables {
		rows, bytes = rows+tables[i].Rows, bytes+tables[i].Bytes
	}
	c.pipeline.showCopy(func(st *CopyStatus) { st.Tables, st.Rows, st.Bytes = tables, rows, bytes })
}
