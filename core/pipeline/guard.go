package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// Intervals of the guard.
const (
	guardIntervalDefault = 10 * time.Second
	// heartbeatAfter is how long the source may be quiet before a heartbeat.
	heartbeatAfter = time.Minute
	// warnBudget and warnLeft are when the slot is in danger: less than a fifth of its
	// budget, or less than half an hour at the present rate.
	warnBudget = 0.2
	warnLeft   = 30 * time.Minute
	// closingWait is how long a server that shuts down may wait for what the sink has not
	// stored; guardAgain is when a question is asked again that failed.
	closingWait = 2 * time.Second
	guardAgain  = time.Second
)

// SlotGuard is what the slot costs the source and how long it can go on.
type SlotGuard struct {
	// HeldBytes is the WAL that the server keeps for the slot.
	HeldBytes int64
	// SafeBytes may still be written before the slot is lost; nil where nothing limits it.
	SafeBytes *int64
	// Left is SafeBytes at the present rate; 0 where it is unknown or without end.
	Left      time.Duration
	WALStatus string
	// Warning says in our own words what is wrong; empty when nothing is.
	Warning string
}

// guard looks at the slot now and then, and keeps a quiet source moving.
type guard struct {
	pipeline *Pipeline
	catalog  *wal.Catalog
	slot     string
	// holder is the server's process that reads for us; 0 where it is not known.
	holder uint32
	// lost ends the session.
	lost   func(error)
	last   core.LSN
	lastAt time.Time
	beat   time.Time
	warned string
	// closing is since when the server takes no connections, though it still streams.
	closing time.Time
}

// errSlotLeft: a connection can be dead without a sign, behind a proxy that keeps its
// own half open. The server knows.
var errSlotLeft = &wal.LostError{Op: "watch", Reason: "the server no longer sees this sidecar read from the slot"}

var errClosing = &wal.LostError{Op: "watch", Reason: "the server shuts down and waits for what the sink has not stored"}

// run ends when ctx is done. A question that fails is asked again at the next turn: the
// guard only watches.
func (g *guard) run(ctx context.Context) {
	g.beat = time.Now()
	g.pipeline.lookAtPublications(ctx, g.catalog)
	interval := g.pipeline.options.GuardInterval
	for pause := interval; sleep(ctx, pause); {
		if pause = interval; !g.look(ctx) {
			pause = min(interval, guardAgain)
			continue
		}
		g.pipeline.lookAtPublications(ctx, g.catalog)
		g.heartbeat(ctx)
	}
}

// failed takes a question that was not answered. A server that shuts down ends ordinary
// sessions at once and then waits for its readers, without end: whoever cannot confirm
// must leave.
func (g *guard) failed(err error) {
	var lost *wal.LostError
	if !errors.As(err, &lost) || lost.SQLSTATE != "57P03" || g.lost == nil {
		return
	}
	if g.closing.IsZero() {
		g.closing = time.Now()
	}
	if time.Since(g.closing) >= closingWait {
		g.lost(errClosing)
	}
}

// GuardSlot keeps the guard's view of the slot fresh until ctx is done, and does nothing
// else: for a pipeline that halted and is left up. The slot goes on holding WAL then, and
// somebody should see how much. It writes nothing to the source.
func (p *Pipeline) GuardSlot(ctx context.Context) {
	source := p.options.Source
	for {
		catalog, err := asked(ctx, func(ctx context.Context) (*wal.Catalog, error) {
			return wal.OpenCatalog(ctx, source)
		})
		if err == nil {
			g := guard{pipeline: p, catalog: catalog, slot: source.Slot}
			g.look(ctx)
			g.watch(ctx)
			_ = catalog.Close()
		}
		if !sleep(ctx, p.options.GuardInterval) {
			return
		}
	}
}

// watch looks at the slot until that fails or ctx is done.
func (g *guard) watch(ctx context.Context) {
	for sleep(ctx, g.pipeline.options.GuardInterval) {
		if !g.look(ctx) {
			return
		}
	}
}

// look reports whether the source answered.
func (g *guard) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	slot, err := g.catalog.Slot(ctx, g.slot)
	if err != nil {
		g.failed(err)
		return false
	}
	g.closing = time.Time{}
	if g.holder != 0 && (!slot.Active || slot.ActivePID != g.holder) {
		g.lost(errSlotLeft)
		return false
	}
	now, err := g.catalog.CurrentLSN(ctx)
	if err != nil {
		return false
	}
	g.pipeline.heard.Store(uint64(now))
	status := watchSlot(slot, g.last, now, time.Since(g.lastAt))
	g.last, g.lastAt = now, time.Now()
	if slot.Failover && status.Warning == "" {
		if by, err := g.catalog.HeldBackBy(ctx); err == nil && by != "" {
			status.Warning = "the server may hold changes back: synchronized_standby_slots names slots that nobody reads from: " + by
		}
	}
	g.pipeline.board.update(func(s *Status) {
		s.Guard = status
		if s.WALEnd = max(s.WALEnd, now); s.Durable != 0 { // the loop shows it too, when something comes
			s.LagBytes = int64(s.WALEnd - s.Durable)
		}
	})
	g.pipeline.showCost(ctx, g.catalog, status.HeldBytes)
	if status.Warning != g.warned {
		g.warned = status.Warning
		if status.Warning != "" {
			g.pipeline.log.Warn("the slot is in danger", "reason", status.Warning, "held_bytes", status.HeldBytes)
		}
	}
	return true
}

// watchSlot computes the guard's view from two readings of the WAL's end.
func watchSlot(slot wal.SlotState, before, now core.LSN, between time.Duration) SlotGuard {
	status := SlotGuard{SafeBytes: slot.SafeWALSize, WALStatus: slot.WALStatus}
	if slot.RestartLSN != 0 && now > slot.RestartLSN {
		status.HeldBytes = int64(now - slot.RestartLSN)
	}
	if slot.WALStatus == "unreserved" {
		status.Warning = "Postgres may remove WAL that the slot needs at its next checkpoint"
	}
	if slot.SafeWALSize == nil {
		return status
	}
	safe := *slot.SafeWALSize
	if before != 0 && now > before && between > 0 {
		rate := float64(now-before) / between.Seconds()
		status.Left = time.Duration(float64(safe) / rate * float64(time.Second))
	}
	switch budget := float64(safe + status.HeldBytes); {
	case status.Warning != "":
	case float64(safe) < warnBudget*budget:
		status.Warning = "less than a fifth of the slot's WAL budget (max_slot_wal_keep_size) is left"
	case status.Left > 0 && status.Left < warnLeft:
		status.Warning = "at the present rate the slot's WAL budget lasts less than half an hour"
	}
	return status
}

// heartbeat writes a logical message, which nobody receives, when the source has been
// quiet for long: so the slot moves although no published table does.
func (g *guard) heartbeat(ctx context.Context) {
	if g.pipeline.options.NoHeartbeat || time.Since(g.beat) < heartbeatAfter {
		return
	}
	g.beat = time.Now()
	if status := g.pipeline.Status(); time.Since(status.LastCommit) < heartbeatAfter {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := g.catalog.Heartbeat(ctx); err != nil {
		g.pipeline.log.Debug("no heartbeat", "reason", err.Error())
	}
}
