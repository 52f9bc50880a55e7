package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
)

// port is the sink as one sidecar process sees it. What it sends is held against the
// rules of a session; then it goes the way to the model, in memory or over gRPC.
type port struct {
	g    *generation
	rng  *rand.Rand
	far  *remotesink.Sink // nil in memory
	sent manifest
}

var (
	_ core.CheckpointHandler       = (*port)(nil)
	_ core.TransactionHandler      = (*port)(nil)
	_ core.BatchHandler            = (*port)(nil)
	_ core.LargeTransactionHandler = (*port)(nil)
	_ core.MessageHandler          = (*port)(nil)
	_ core.SchemaChangeHandler     = (*port)(nil)
)

// begin is before anything is sent. A frozen process sends it when it wakes.
func (p *port) begin(what string) {
	p.g.w.mu.Lock()
	if p.g.atCall && strings.HasPrefix(what, "Handle") {
		p.g.atCall = false
		p.g.w.note("%s: freezes at %s", p.g.name(), what)
		p.g.gate.close()
	}
	p.g.w.mu.Unlock()
	p.g.gate.pass()
	p.g.w.mu.Lock()
	defer p.g.w.mu.Unlock()
	p.g.judgeAlive(what)
}

// end is behind the answer, which is classified as it is on the wire.
func (p *port) end(call string, err error) error {
	p.g.gate.pass()
	if err == nil {
		return nil
	}
	p.g.fault()
	var failed *core.SinkError
	if errors.As(err, &failed) {
		return failed
	}
	return wire.SinkErrorOf(call, wire.StatusOf(err).Err(), nil, errors.Is(err, errNotReached))
}

// Capabilities asks what the sink is.
func (p *port) Capabilities(ctx context.Context) (caps core.Capabilities, err error) {
	p.begin("GetCapabilities")
	p.g.w.mu.Lock()
	p.g.held = false // a session begins
	p.g.w.mu.Unlock()
	if p.far != nil {
		caps, err = p.far.Capabilities(ctx)
		return caps, p.end("GetCapabilities", err)
	}
	answers := make(chan core.Capabilities, 2) // the request may arrive twice
	err = p.g.w.road(ctx, p.rng, func(context.Context) error {
		answers <- p.g.w.sink.capabilities()
		return nil
	})
	if err == nil {
		caps = <-answers
	}
	return caps, p.end("GetCapabilities", err)
}

// Checkpoint reads or claims.
func (p *port) Checkpoint(ctx context.Context, q core.CheckpointRequest) (core.Checkpoint, error) {
	p.begin("Checkpoint")
	w := p.g.w
	w.mu.Lock()
	if q.Claim != nil && !p.g.held {
		w.fail("%s claims epoch %d and holds neither the slot nor the bootstrap lock", p.g.name(), q.Claim.Epoch)
	}
	w.mu.Unlock()
	var stored core.Checkpoint
	var err error
	if p.far != nil {
		stored, err = p.far.Checkpoint(ctx, q)
	} else {
		answers := make(chan core.Checkpoint, 2)
		err = w.road(ctx, p.rng, func(ctx context.Context) error {
			answer, err := w.sink.claim(ctx, q)
			answers <- answer
			return err
		})
		if err == nil {
			stored = <-answers
		}
	}
	w.mu.Lock()
	p.sent.asked(q.Claim != nil, stored.Position, err == nil)
	w.mu.Unlock()
	return stored, p.end("Checkpoint", err)
}

// HandleTransaction sends one transaction or an idle step.
func (p *port) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return p.unit(ctx, "HandleTransaction", core.CapTransaction, u)
}

// HandleBatch sends a batch.
func (p *port) HandleBatch(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return p.unit(ctx, "HandleBatch", core.CapBatch, u)
}

func (p *port) unit(ctx context.Context, name string, needs core.Capability, u *core.Unit) (core.Ack, error) {
	p.begin(name)
	job := workOf(p.g.w, name, u)
	return p.send(ctx, needs, job, func(ctx context.Context) (core.Ack, error) {
		if name == "HandleBatch" {
			return p.far.HandleBatch(ctx, u)
		}
		return p.far.HandleTransaction(ctx, u)
	})
}

// workOf keeps of a unit what outlives the call.
func workOf(w *world, name string, u *core.Unit) *work {
	job := &work{name: name, call: u.Call, expected: u.Expected, checkpoint: u.Checkpoint, resume: append([]byte(nil), u.ResumeState...)}
	if u.ResumeState == nil {
		job.resume = nil
	}
	for i := range u.Transactions {
		w.judgeContent(&u.Transactions[i])
		job.ends = append(job.ends, u.Transactions[i].EndLSN)
	}
	return job
}

// HandleMessage sends a message outside of any transaction.
func (p *port) HandleMessage(ctx context.Context, u *core.MessageUnit) (core.Ack, error) {
	p.begin("HandleMessage")
	return p.send(ctx, core.CapMessage, messageWork(p.g.w, u), func(ctx context.Context) (core.Ack, error) {
		return p.far.HandleMessage(ctx, u)
	})
}

func messageWork(w *world, u *core.MessageUnit) *work {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.wal.ending(u.Message.LSN)
	if r == nil || r.kind != message || r.prefix != string(u.Message.Prefix) || r.content != string(u.Message.Content) || u.Checkpoint != u.Message.LSN {
		w.fail("message at %s is none of the source's", u.Message.LSN)
	}
	return &work{name: "HandleMessage", call: u.Call, expected: u.Expected, checkpoint: u.Checkpoint, ends: []core.LSN{u.Checkpoint}, resume: u.ResumeState}
}

// HandleSchemaChange tells a new shape.
func (p *port) HandleSchemaChange(ctx context.Context, u *core.SchemaChangeUnit) error {
	p.begin("HandleSchemaChange")
	_, err := p.send(ctx, core.CapSchemaChange, schemaWork(p.g.w, u), func(ctx context.Context) (core.Ack, error) {
		return core.Ack{}, p.far.HandleSchemaChange(ctx, u)
	})
	return err
}

func schemaWork(w *world, u *core.SchemaChangeUnit) *work {
	return &work{name: "HandleSchemaChange", call: u.Call, expected: u.Expected, told: [][2]int{toldBy(w, &u.Change)}}
}

// toldBy is the table and the shape that a schema change tells.
func toldBy(w *world, c *core.SchemaChange) [2]int {
	for i, t := range w.wal.tables {
		if c.After.OID == t.oid {
			if c.Kind != core.SchemaAdditive {
				w.fail("a column was added to %s, told was %s", t.name, c.What)
			}
			return [2]int{i, len(c.After.Columns) - 2}
		}
	}
	w.fail("a change of relation %d, which is none of the source's", c.After.OID)
	return [2]int{}
}

// send is a writing call.
func (p *port) send(ctx context.Context, needs core.Capability, job *work, far func(context.Context) (core.Ack, error)) (core.Ack, error) {
	w := p.g.w
	w.mu.Lock()
	if !w.sink.caps.Set.Has(needs) {
		w.fail("I6: %s without %s", job.name, needs)
	}
	p.sent.judge(p.g, job)
	w.mu.Unlock()
	var ack core.Ack
	var err error
	if p.far != nil {
		ack, err = far(ctx)
	} else {
		acks := make(chan core.LSN, 2)
		err = w.road(ctx, p.rng, func(ctx context.Context) error {
			at, err := w.sink.do(ctx, job)
			acks <- at
			return err
		})
		if err == nil {
			ack.Checkpoint = <-acks
		}
	}
	err = p.end(job.name, err)
	w.mu.Lock()
	p.sent.answered(job, err)
	w.mu.Unlock()
	return ack, err
}

// HandleLargeTransaction sends a transaction in pieces.
func (p *port) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	p.begin("HandleLargeTransaction")
	whole := &collector{w: p.g.w, from: l}
	job := whole.job()
	p.g.w.mu.Lock()
	p.sent.judgeSequence(p.g, &job.call)
	p.g.w.mu.Unlock()
	if p.far != nil {
		return p.farLarge(ctx, whole)
	}
	for job.checkpoint == 0 {
		if _, err := whole.Next(ctx); err != nil {
			return core.Ack{}, p.end(job.name, ctxError(ctx, err))
		}
	}
	return p.send(ctx, core.CapLargeTransaction, job, nil)
}

// ctxError is the source's error, or that of the caller who has gone.
func ctxError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return status.Error(codes.Aborted, err.Error())
}

func (p *port) farLarge(ctx context.Context, whole *collector) (core.Ack, error) {
	ack, err := p.far.HandleLargeTransaction(ctx, whole)
	job := whole.job()
	p.g.w.mu.Lock()
	if job.checkpoint != 0 {
		p.sent.judge(p.g, job)
	}
	p.g.w.mu.Unlock()
	if err != nil && job.checkpoint == 0 {
		return ack, p.end(job.name, err) // it never happened
	}
	err = p.end(job.name, err)
	p.g.w.mu.Lock()
	p.sent.answered(job, err)
	p.g.w.mu.Unlock()
	return ack, err
}

// collector passes a large transaction on and judges it once it is whole.
type collector struct {
	w    *world
	from core.LargeTransaction
	made *work
	tx   core.Transaction
}

// Begin is the opening frame.
func (c *collector) Begin() core.LargeBegin { return c.from.Begin() }

func (c *collector) job() *work {
	if c.made == nil {
		begin := c.from.Begin()
		c.made = &work{name: "HandleLargeTransaction", call: begin.Call, expected: begin.Expected, large: true}
		c.tx = core.Transaction{XID: begin.XID, CommitLSN: begin.CommitLSN, CommitTime: begin.CommitTime}
	}
	return c.made
}

// Next passes a frame on.
func (c *collector) Next(ctx context.Context) (core.LargeFrame, error) {
	job := c.job()
	frame, err := c.from.Next(ctx)
	if err != nil {
		return frame, err
	}
	switch {
	case frame.SchemaChange != nil:
		job.told = append(job.told, toldBy(c.w, frame.SchemaChange))
	case frame.Commit != nil:
		c.tx.EndLSN = frame.Commit.EndLSN
		if frame.Commit.ChangeCount != uint64(len(c.tx.Changes)) {
			c.w.fail("the commit frame counts %d changes, %d came", frame.Commit.ChangeCount, len(c.tx.Changes))
		}
		c.w.judgeContent(&c.tx)
		job.checkpoint, job.resume = frame.Commit.Checkpoint, append([]byte(nil), frame.Commit.ResumeState...)
		if frame.Commit.ResumeState == nil {
			job.resume = nil
		}
		job.ends = []core.LSN{frame.Commit.EndLSN}
	default:
		if frame.FirstChangeIndex != uint64(len(c.tx.Changes)) {
			c.w.fail("a piece begins at change %d, due was %d", frame.FirstChangeIndex, len(c.tx.Changes))
		}
		for _, change := range frame.Changes {
			change.New, change.Old = change.New.Clone(), change.Old.Clone()
			if change.Message != nil {
				copied := *change.Message
				copied.Prefix, copied.Content = append([]byte(nil), copied.Prefix...), append([]byte(nil), copied.Content...)
				change.Message = &copied
			}
			c.tx.Changes = append(c.tx.Changes, change)
		}
	}
	return frame, nil
}
