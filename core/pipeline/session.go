package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// session is the life of one replication connection. Its order is the protocol:
// sink, source, veto, read the checkpoint without claiming, decide, take the slot,
// claim, judge, first status, deliver.
type session struct {
	pipeline *Pipeline
	ctx      context.Context
	caps     core.Capabilities
	mode     Mode
	conn     *wal.Conn
	catalog  *wal.Catalog
	source   core.SourceIdentity
	owner    owner
	epoch    uint64
	holder   uint32 // the server's process that reads for us
	recovery bool   // the source is a standby
	resumed  resumeState
	judged   uint32 // the timeline of the checkpoint that was found good; 0 for none
}

// askTimeout bounds the calls that only ask.
const askTimeout = 15 * time.Second

// run is one session from the top. nil means drained.
func (s *session) run(ctx context.Context) error {
	s.ctx = ctx
	starting, started := s.pipeline.untilDrain(ctx)
	defer started()
	if err := s.greetSink(starting); err != nil {
		return err
	}
	if err := s.connect(starting); err != nil {
		return err
	}
	defer s.close()
	claimed, err := s.begin(starting)
	if err != nil {
		return err
	}
	c, err := s.courier(starting, claimed)
	if err != nil {
		return err
	}
	started()
	return s.stream(ctx, claimed, c)
}

// begin goes from a connection to a stream that is ours, and returns the position that
// the claim returned.
func (s *session) begin(ctx context.Context) (core.LSN, error) {
	if err := s.greetSource(ctx); err != nil {
		return 0, err
	}
	for {
		stored, err := s.owner.read(ctx, s.source)
		if err != nil {
			return 0, err
		}
		slot, action, err := s.decide(ctx, stored)
		if isHalt(err) {
			err = s.sure(ctx, err)
		}
		if err != nil {
			return 0, err
		}
		switch action {
		case checkpoint.Standby:
			s.pipeline.board.update(func(st *Status) { st.StandbyHolder = slot.ActivePID })
			s.pipeline.open = "" // the slot's holder resolves it
			return 0, &again{StateStandby, standbyInterval, slot.Busy()}
		case checkpoint.Resume:
			return s.resume(ctx, stored, slot)
		}
		if err := s.bootstrap(ctx); err != nil {
			return 0, err
		}
	}
}

// greetSink learns what the sink can do and checks that it is enough, before the source
// is touched.
func (s *session) greetSink(ctx context.Context) error {
	p := s.pipeline
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	caps, err := p.handlers.sink.Capabilities(ask)
	if err != nil {
		return classify("GetCapabilities", err)
	}
	p.doubt.authorized("GetCapabilities")
	mode, err := resolveMode(p.options, caps)
	if err != nil {
		return err
	}
	if lacking := p.handlers.implements().Missing(inUse(mode, p.options, caps)); len(lacking) > 0 {
		return core.NewHalt(core.HaltInvalidSink, "GetCapabilities", "the sink advertises %s and has no method for it", lacking[0])
	}
	if p.greeted {
		if err := sameSink(p.caps, caps, inUse(p.mode, p.options, p.caps)); err != nil {
			return err
		}
		mode = p.mode
	} else {
		p.log.Info("sink connected", "name", caps.Name, "version", caps.Version, "kind", caps.Kind.String(), "mode", mode.String())
		p.warn(caps)
		p.greeted, p.caps, p.mode = true, caps, mode
	}
	s.caps, s.mode, s.owner = caps, mode, p.owner(caps)
	p.board.update(func(st *Status) { st.Sink, st.Mode = caps, mode })
	return nil
}

func (p *Pipeline) owner(caps core.Capabilities) owner {
	if p.options.Store != nil {
		return &storeOwner{pipeline: p, store: p.options.Store, sinkName: caps.Name}
	}
	return &sinkOwner{pipeline: p, caps: caps}
}

// warn says once what the sink's capabilities leave open.
func (p *Pipeline) warn(caps core.Capabilities) {
	switch {
	case p.options.Store == nil && !caps.Fences(core.FencingStored):
		p.log.Warn("the sink does not fence overtaken writers: the slot is the only lock")
	case p.options.Store == nil && !caps.Set.Has(core.CapResumeState):
		p.log.Info("the sink keeps no resume state: a change of shape while the sidecar is stopped goes unnoticed")
	case p.options.Store != nil && !caps.Fences(core.FencingInstance):
		p.log.Warn("unfenced sink accepted: after a timeout or takeover an old row may be written over a newer one")
	}
}

func (s *session) connect(ctx context.Context) error {
	conn, err := wal.Connect(ctx, s.pipeline.options.Source)
	if err != nil {
		return err
	}
	catalog, err := wal.OpenCatalog(ctx, s.pipeline.options.Source)
	if err != nil {
		_ = conn.Close()
		return err
	}
	s.conn, s.catalog = conn, catalog
	return nil
}

func (s *session) close() {
	_ = s.conn.Close()
	_ = s.catalog.Close()
}

// decide reads the slot and asks the decision matrix. locked says that we hold the
// bootstrap lock, so that nobody else does.
func (s *session) decide(ctx context.Context, stored core.Checkpoint) (wal.SlotState, checkpoint.Action, error) {
	p := s.pipeline
	slot, err := asked(ctx, s.slot)
	if err != nil {
		return slot, 0, err
	}
	begun, err := s.begun(ctx, stored)
	if err != nil {
		return slot, 0, err
	}
	state := checkpoint.StateOf(stored)
	action, err := checkpoint.Decide(state, checkpoint.Slot{
		Name: p.options.Source.Slot, Present: slot.Present, Busy: slot.Active && slot.ActivePID != s.conn.PID(),
		Invalidated: slot.Invalidation(), Plugin: slot.Plugin, Logical: slot.Type == "logical",
		Database: slot.Database, TwoPhase: slot.TwoPhase,
	}, checkpoint.Intent{
		Database:  s.source.Database,
		GoForward: p.options.GoForwardOnly || s.caps.Kind == core.AppendLog,
		AdoptSlot: p.options.AdoptSlot && !p.adopted,
		Begun:     begun, Snapshot: p.options.Snapshot, SnapshotRedo: p.options.SnapshotRedo && !p.redone,
	})
	return slot, action, err
}

// resume takes the slot at the position that was read, claims, judges, and tells Postgres
// the claimed position for the first time.
func (s *session) resume(ctx context.Context, read core.Checkpoint, slot wal.SlotState) (core.LSN, error) {
	p := s.pipeline
	if err := s.continues(ctx, read, slot); err != nil {
		return 0, err
	}
	if err := s.offerOrigin(ctx, max(read.Position, slot.ConfirmedFlush), true); err != nil {
		return 0, err
	}
	if err := s.conn.Start(ctx, read.Position, slot.ConfirmedFlush); err != nil {
		return 0, err
	}
	claimed, err := s.claim(ctx)
	if err != nil {
		return 0, err
	}
	if s.resumed, err = readResumeState(claimed.ResumeState); err != nil {
		return 0, err
	}
	if len(s.resumed.Relations) == 0 {
		s.resumed = resumeState{Relations: p.shapes.Relations} // what this run has seen, where nothing is kept
	}
	if slot, err = asked(ctx, s.slot); err != nil {
		return 0, err
	}
	walEnd, err := asked(ctx, s.catalog.CurrentLSN)
	if err != nil {
		return 0, err
	}
	// A server that reads much old WAL before it sends anything is behind, not idle.
	p.heard.Store(uint64(walEnd))
	if slot.Active {
		s.holder = slot.ActivePID
	}
	if err := s.replayed(claimed.Position, walEnd); err != nil {
		return 0, err
	}
	verdict, err := checkpoint.Judge(claimed.Position, read.Position, slot.ConfirmedFlush, walEnd)
	if err != nil {
		return 0, err
	}
	if verdict == checkpoint.Reconnect {
		return 0, &again{StateStarting, reconnectMin, errReconnect}
	}
	s.conn.Confirm(claimed.Position)
	if err := s.conn.Flush(ctx); err != nil {
		return 0, err
	}
	p.board.update(func(st *Status) {
		st.State, st.Reason, st.Epoch, st.StandbyHolder = StateCatchingUp, "", s.epoch, 0
		st.Received, st.Durable, st.Confirmed = claimed.Position, claimed.Position, claimed.Position
		st.Sessions++
	})
	p.log.Info("streaming", "from", claimed.Position.String(), "epoch", s.epoch, "slot", p.options.Source.Slot)
	return claimed.Position, nil
}

// stream runs pump, deliver and the loop until one of them ends it.
func (s *session) stream(ctx context.Context, claimed core.LSN, c courier) error {
	p := s.pipeline
	asm := s.assembler()
	defer asm.Close()
	run, err := s.beginRun(ctx, claimed)
	if err != nil {
		return err
	}
	machine, err := NewMachine(Settings{
		Run: run, Heard: core.LSN(p.heard.Load()),
		Mode: s.mode, Delivery: p.delivery(s.mode), Limits: s.caps.Limits.Resolved(),
		Large: s.caps.Set.Has(core.CapLargeTransaction), SchemaChanges: s.caps.Set.Has(core.CapSchemaChange),
		Messages: p.options.Source.Messages, Claimed: claimed,
		KeepShapes: s.keepsShapes(), Crowded: p.crowded,
		Resume: s.resumed, Timeline: s.source.Timeline,
	}, asm, time.Now())
	if err != nil {
		return err
	}
	p.accepts(machine)
	d := newDeliverer(c)
	pump := newPump(s.conn, s.catalog, p.options.Source.Streaming)
	ctx, cancel := context.WithCancelCause(ctx)
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	var reads, working sync.WaitGroup
	start := func(name string, group *sync.WaitGroup, ctx context.Context, f func(context.Context)) {
		group.Go(func() {
			defer p.catch(name, cancel)
			f(ctx)
		})
	}
	start("pump", &reads, reading, pump.run)
	start("deliver", &working, ctx, d.run)
	readers := s.newReaders(run)
	for i := range readers.count() {
		start("reader", &working, ctx, func(ctx context.Context) { readers.work(ctx, i) })
	}
	start("guard", &working, ctx, (&guard{
		pipeline: p, catalog: s.catalog, slot: p.options.Source.Slot, holder: s.holder, lost: func(err error) { cancel(err) },
	}).run)
	l := &loop{session: s, machine: machine, pump: pump, deliver: d, readers: readers, stopReading: func() {
		stopReading()
		reads.Wait()
	}}
	p.open = "" // this session knows where its owner stands
	err = l.run(ctx)
	if errors.Is(err, ErrLeftOpen) || err != nil && l.doubtful(err) {
		p.open = machine.flight.String()
	}
	cancel(errors.New("session over"))
	reads.Wait()
	working.Wait()
	p.totals = p.totals.plus(machine.Count())
	p.shapes = machine.shapes.state(machine.shapes.durable)
	return err
}

// delivery is the bounds of a unit in this mode.
func (p *Pipeline) delivery(mode Mode) Delivery {
	d := p.options.Delivery
	if mode == ModeLibBatched {
		d.MaxTransactions = p.options.StoreBatch
	}
	return d
}

// courier is who delivers in this session; in lib modes it has introduced itself.
func (s *session) courier(ctx context.Context, claimed core.LSN) (courier, error) {
	p := s.pipeline
	base := caller{timeout: p.doubt.deadline, notReady: p.notReady(StateSinkUnavailable), sequence: &p.sequence, call: core.Call{
		StreamID: p.options.StreamID, Owner: core.OwnerSink, Epoch: s.epoch, SenderID: p.sender, InstanceID: s.caps.InstanceID,
	}}
	if p.options.Store == nil {
		return &sinkCourier{base, p.handlers, s.mode == ModeBatch}, nil
	}
	lib := newLibCourier(p, base)
	lib.repairs = s.repairs()
	return lib, lib.introduce(ctx, claimed)
}
