package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// Copying bounds what a copy takes of the source and of memory.
type Copying struct {
	// Connections read at once; 2 when zero.
	Connections int
	// PartPages cuts a table into ranges of so many pages, which are read side by side;
	// 8192 (64 MiB) when zero.
	PartPages int64
	// ChunkRows bounds what an incremental snapshot reads under one snapshot; 2000 when
	// zero.
	ChunkRows int
	// MaxHold is how long the stream waits for the copy of a table without a key before that
	// is put off; 0 has no bound.
	MaxHold time.Duration
	// MaxXminAge halts an initial copy that has held back the source's clean-up for so many
	// transactions; 0 has no bound.
	MaxXminAge int64
	// MaxHeld halts it when the slot keeps more WAL than this, in bytes; 0 has no bound.
	MaxHeld int64
}

func (c Copying) withDefaults() Copying {
	const connections, pages = 2, 8192
	if c.Connections <= 0 {
		c.Connections = connections
	}
	if c.PartPages <= 0 {
		c.PartPages = pages
	}
	return c
}

// dropLeftover drops the slot of a copy that was not completed: the operator has said so,
// nothing was ever confirmed to it, and nobody streams from it. Once a start.
func (s *session) dropLeftover(ctx context.Context, slot wal.SlotState) error {
	p := s.pipeline
	p.redone = true
	p.log.Warn("dropping the slot of an unfinished copy", "slot", slot.Name, "confirmed", slot.ConfirmedFlush.String())
	return s.conn.DropSlot(ctx)
}

// copyInitial copies every published table as it was when the slot was made, and stores
// the slot's first position as the end of that. It runs under the bootstrap lock. Whatever
// goes wrong before the end leaves a slot and no position: the next start halts for it.
func (s *session) copyInitial(ctx context.Context) error {
	p := s.pipeline
	since := time.Now()
	p.showCopy(func(c *CopyStatus) { *c = CopyStatus{Kind: "initial", Phase: CopyWaitsForSlot, Since: since} })
	p.board.state(StateCopying, "")
	source := snapshot.Source{Open: wal.PlainOpener(p.options.Source), Classify: wal.ClassifyPlain, Waiting: func(table string) {
		p.showCopy(func(c *CopyStatus) { c.Waiting = "somebody is changing table " + table })
	}}
	if err := source.Preflight(ctx, p.options.Source.Publications); err != nil {
		return err
	}
	p.showCopy(func(c *CopyStatus) { c.Waiting = "" })
	claimed, err := s.claim(ctx)
	if err != nil {
		return err
	}
	var run [16]byte
	_, _ = rand.Read(run[:]) // documented never to fail
	if err := s.armInitial(ctx, claimed.Position, run); err != nil {
		return err
	}
	p.log.Info("creating the slot, with a snapshot", "slot", p.options.Source.Slot)
	made, err := s.conn.CreateSlotExporting(ctx)
	if err != nil {
		return s.notMade(ctx, err)
	}
	p.copying = true
	_ = failpoint.Hit(failpoint.SnapshotSlot)
	if err := s.offerOrigin(ctx, made.At, false); err != nil {
		return err
	}
	p.showCopy(func(c *CopyStatus) { c.Phase, c.Point = CopyWaitsForLocks, made.At })
	exported, err := snapshot.Adopt(ctx, source, snapshot.Adoption{
		Snapshot: made.Snapshot, Publications: p.options.Source.Publications, Connections: p.options.Copy.Connections,
	})
	if err != nil {
		return err
	}
	defer func() { _ = exported.Close() }()
	if err := s.copyAll(ctx, &copying{claimed: claimed.Position, at: made.At, run: run, exported: exported}); err != nil {
		return err
	}
	p.copying = false
	p.showCopy(func(c *CopyStatus) { c.Phase, c.Waiting, c.XminAge, c.HeldBytes = CopyDone, "", 0, 0 })
	_ = failpoint.Hit(failpoint.SnapshotCompleted)
	return s.conn.EndExport(ctx)
}

// copyAll delivers the tables and the completion while a watch stands by.
func (s *session) copyAll(ctx context.Context, c *copying) error {
	p := s.pipeline
	courier, err := s.courier(ctx, c.claimed)
	if err != nil {
		return err
	}
	c.session, c.courier, c.relations, c.pace = s, courier, map[*snapshot.Table]*core.Relation{}, newPace()
	watched, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer p.catch("watch", cancel)
		(&copyWatch{session: s, xmin: c.exported.Xmin()}).run(watched, ctx, cancel)
	}()
	defer func() {
		cancel(errCopyOver)
		<-done
	}()
	err = c.tables(watched)
	if err == nil {
		err = c.complete(watched)
	}
	if err != nil && watched.Err() != nil && ctx.Err() == nil {
		return context.Cause(watched) // what the watch found is why the rest failed
	}
	return err
}

var errCopyOver = errors.New("the copy is over")

// tables reads and delivers, one unit in flight while the next ones are read.
func (c *copying) tables(ctx context.Context) error {
	p := c.session.pipeline
	for _, t := range c.exported.Tables() {
		c.describe(ctx, t)
	}
	limits := c.session.caps.Limits.Resolved()
	limit := func(t *snapshot.Table) int {
		return limits.RequestBytes - snapshotHeaderMax - c.relations[t].EncodedMax()
	}
	reader := snapshot.NewReader(ctx, c.exported, snapshot.Reading{
		PartPages: p.options.Copy.PartPages, Limit: limit,
		Preferred: func(t *snapshot.Table) int { return max(min(limits.PreferredBytes-snapshotHeaderMax, limit(t)), 1) },
	})
	defer reader.Close()
	progress := newCopyProgress(p, c.exported.Tables())
	defer progress.show(true)
	p.log.Info("copying", "tables", len(c.exported.Tables()), "at", c.at.String(), "connections", p.options.Copy.Connections)
	for {
		d, more, err := reader.Next(ctx)
		if err != nil || !more {
			return err
		}
		_ = failpoint.Hit(failpoint.SnapshotBatch)
		err = c.deliver(ctx, d)
		failed, ok := answer(err)
		switch {
		case err == nil:
			p.doubt.progress(c.claimed)
			c.pace.Reset()
			progress.delivered(d)
			if d.Last {
				_ = failpoint.Hit(failpoint.SnapshotTable)
			}
		case ok && failed.Unknown():
			if err := c.doubtful(ctx, failed); err != nil {
				return err
			}
			p.log.Warn("a table is copied again", "table", d.Table.String(), "reason", failed.Error())
			reader.Restart(d.Table)
			progress.restarted(d.Table)
		default:
			return err
		}
		reader.Recycle(d.Batch)
	}
}

// describe makes the relation that the units of a table carry.
func (c *copying) describe(ctx context.Context, t *snapshot.Table) {
	r := t.Relation
	ask, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	_ = c.session.catalog.Describe(ask, &r) // what could not be learned stays unset
	c.relations[t] = &r
}

// snapshotHeaderMax is what a snapshot unit takes beside relation and rows, at most.
const snapshotHeaderMax = requestHeaderMax + 64
