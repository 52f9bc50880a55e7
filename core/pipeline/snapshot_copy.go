package pipeline

import (
	"context"
	"errors"

	"github.com/cenkalti/backoff/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// copying is one run of an initial copy on its way to the sink.
type copying struct {
	session   *session
	courier   courier
	exported  *snapshot.Exported
	claimed   core.LSN // what is stored, all the way: nothing
	at        core.LSN // the consistent point
	run       [16]byte
	relations map[*snapshot.Table]*core.Relation
	pace      *backoff.ExponentialBackOff
}

// deliver sends one delivery, in smaller units where the sink finds it too big.
func (c *copying) deliver(ctx context.Context, d snapshot.Delivery) error {
	u := &core.SnapshotUnit{
		Expected: c.claimed, Relation: c.relations[d.Table], LSN: c.at, RunID: c.run, Generation: initialGeneration,
		First: d.First, Last: d.Last,
	}
	if d.Batch != nil {
		u.Rows = d.Batch.Rows
	}
	if u.First {
		u.Reset = core.ResetSnapshotRows
		if !d.Table.HasKey() {
			u.Reset = core.ResetAll
		}
	}
	return c.send(ctx, u)
}

func (c *copying) send(ctx context.Context, u *core.SnapshotUnit) error {
	_, err := c.courier.snapshot(ctx, u)
	failed, ok := answer(err)
	if !ok || failed.Class != core.ClassTooBig {
		return err
	}
	half := len(u.Rows) / 2
	if half == 0 {
		return &core.Halt{Code: core.HaltValueTooLarge, Op: failed.Call, Relation: u.Relation.String(), Detail: "the sink refused a single row as too big", Err: failed}
	}
	first, second := *u, *u
	first.Rows, first.Last = u.Rows[:half], false
	second.Rows, second.First, second.Reset = u.Rows[half:], false, 0
	if err := c.send(ctx, &first); err != nil {
		return err
	}
	return c.send(ctx, &second)
}

// complete stores the consistent point, with the shapes that were copied.
func (c *copying) complete(ctx context.Context) error {
	p := c.session.pipeline
	_ = failpoint.Hit(failpoint.SnapshotCopied)
	p.showCopy(func(st *CopyStatus) { st.Phase = CopyCompletes })
	u := &core.SnapshotCompleteUnit{Expected: c.claimed, Checkpoint: c.at, RunID: c.run, Generation: initialGeneration}
	keep := p.options.Store != nil || c.session.caps.Set.Has(core.CapResumeState)
	known := newShapes(keep, resumeState{}, c.session.source.Timeline)
	for _, t := range c.exported.Tables() {
		u.Relations = append(u.Relations, c.relations[t])
		known.note(c.relations[t])
	}
	u.ResumeState = known.take()
	u.Relations = fitting(u.Relations, c.session.caps.Limits.Resolved().RequestBytes-snapshotHeaderMax-len(u.ResumeState))
	for {
		if ctx.Err() != nil { // what the watch found counts, though all rows are there
			return context.Cause(ctx)
		}
		ack, err := c.courier.complete(ctx, u)
		failed, ok := answer(err)
		switch {
		case err == nil && ack.Checkpoint != c.at:
			return core.NewHalt(core.HaltSinkContract, "HandleSnapshotComplete", "asked to store %s, the sink answered %s", c.at, ack.Checkpoint)
		case err == nil:
			p.doubt.progress(c.at)
			p.shapes = known.state(known.byOID)
			p.log.Info("copy complete", "tables", len(u.Relations), "position", c.at.String())
			return nil
		case !ok || !failed.Unknown():
			return err
		}
		if err := c.doubtful(ctx, failed); err != nil {
			return err
		}
	}
}

// fitting leaves the columns out where all relations together do not fit into a request:
// the sink has had each of them with its rows.
func fitting(relations []*core.Relation, room int) []*core.Relation {
	size := 0
	for _, r := range relations {
		size += r.EncodedMax()
	}
	if size <= room {
		return relations
	}
	bare := make([]*core.Relation, len(relations))
	for i, r := range relations {
		bare[i] = &core.Relation{OID: r.OID, Schema: r.Schema, Name: r.Name, Identity: r.Identity}
	}
	return bare
}

// doubtful waits until the sink is there again after an outcome that nobody knows, and
// takes the stream over anew, so that a call that still runs there can do nothing any
// more. The connections to the source stay.
func (c *copying) doubtful(ctx context.Context, failed *core.SinkError) error {
	s := c.session
	p := s.pipeline
	show := p.notReady(StateSinkUnavailable)
	defer p.board.state(StateCopying, "")
	defer p.waiting.Store(nil)
	for {
		if !failed.NeverSent && failed.Class != core.ClassAway && !asks(failed.Call) {
			if err := p.doubt.note(c.claimed, failed, s.caps.Limits.Resolved().CallDuration); err != nil {
				return err
			}
		}
		show(failed.Error())
		if !sleep(ctx, c.pace.NextBackOff()) {
			return context.Cause(ctx)
		}
		err := c.renew(ctx)
		next, ok := answer(err)
		if !ok || !next.Unknown() {
			return err
		}
		failed = next
	}
}

// renew greets the sink again, claims again and compares what is stored.
func (c *copying) renew(ctx context.Context) error {
	s := c.session
	if err := s.greetSink(ctx); err != nil {
		return err
	}
	if s.pipeline.options.Store == nil {
		claimed, err := s.claim(ctx)
		if err != nil {
			return err
		}
		if claimed.Position != c.claimed && claimed.Position != c.at {
			return &again{StateStarting, reconnectMin, errMovedMeanwhile}
		}
	}
	courier, err := s.courier(ctx, c.claimed)
	if err == nil {
		c.courier = courier
	}
	return err
}

var errMovedMeanwhile = errors.New("the checkpoint moved while tables were copied")
