package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/spill"
)

// waiting is the state that a session shows while deliver can do nothing.
type waiting struct {
	state  State
	reason string
}

// ErrAbort is what Run returns when its context ended before a drain was complete.
// Nothing is lost: what was not confirmed is sent again by the next start.
var ErrAbort = errors.New("aborted")

// Pipeline carries one stream from one slot to one sink. Make it with New, call Run
// once.
type Pipeline struct {
	options  Options
	handlers handlers
	log      *slog.Logger
	board    *board
	room     *spill.Room // nil without streaming

	drain     chan struct{} // closed by Drain
	drainOnce sync.Once

	// What outlives a session. Only Run's goroutine touches it, between sessions.
	sender   [16]byte // random per incarnation
	sequence uint64
	greeted  bool
	caps     core.Capabilities
	mode     Mode
	source   core.SourceIdentity
	timeline uint32
	lineage  string
	shapes   resumeState // of the session before
	// acceptance is nil until the first session streams.
	acceptance *acceptance
	adopted    bool
	// stored is the token that a store of ours has.
	stored []byte
	// requests are about a copy; a session that streams takes them.
	requests chan *request
	redone   bool      // the slot of an unfinished copy was dropped
	copying  bool      // the slot of an initial copy was made, and the copy is not complete
	early    bool      // that the sink is waited for was told as nothing special
	began    time.Time // the run
	doubt    doubt
	open     string // the unit of unknown outcome that the last session left; "" none
	totals   Counters
	// storeAway is since when our store has not answered, by operation.
	storeAway map[string]time.Time
	members   membership
	renamed   bool // it was told that the sink has another name than the stored one

	// heard is the end of the source's WAL as its catalog told it.
	heard atomic.Uint64

	// copyXmin is the oldest transaction that the snapshot of a copy beside the stream does
	// not show; 0 without one.
	copyXmin atomic.Uint64

	saidCrowded atomic.Bool

	// waiting is set while deliver is kept waiting inside a session.
	waiting atomic.Pointer[waiting]
}

// New checks what can be checked without a connection. The error is a *core.Halt.
func New(o Options) (*Pipeline, error) {
	o = o.withDefaults()
	if o.Sink == nil {
		return nil, core.NewHalt(core.HaltInvalidSink, "new", "no sink")
	}
	if err := o.Source.Validate(); err != nil {
		return nil, err
	}
	if o.Snapshot != checkpoint.SnapshotNone && (o.GoForwardOnly || o.AdoptSlot) {
		return nil, core.NewHalt(core.HaltConflictingStartMode, "new",
			"a snapshot begins with a new slot: it excludes go_forward_only and adopt_slot")
	}
	room, err := o.room()
	if err != nil {
		return nil, err
	}
	p := &Pipeline{
		options: o, handlers: register(o.Sink), log: o.Logger, board: newBoard(o), drain: make(chan struct{}), room: room,
		requests:  make(chan *request),
		storeAway: map[string]time.Time{},
	}
	if p.handlers.checkpoint == nil && o.Store == nil {
		return nil, core.NewHalt(core.HaltInvalidSink, "new", "the sink has no Checkpoint method")
	}
	_, _ = rand.Read(p.sender[:]) // documented never to fail
	return p, nil
}

// Status is a copy of what the pipeline shows; cheap, and safe from any goroutine.
func (p *Pipeline) Status() Status { return *p.board.current.Load() }

// Drain asks Run to stop after the unit in flight: it is waited for, its position is
// confirmed, and Run returns nil; ErrLeftOpen if its outcome stays unknown, ErrCopyInterrupted
// if an initial copy was not complete. Safe to call more than once and from any goroutine.
func (p *Pipeline) Drain() { p.drainOnce.Do(func() { close(p.drain) }) }

// Run streams until Drain (nil, ErrLeftOpen or ErrCopyInterrupted), a halt (*core.Halt) or the
// end of ctx (ErrAbort).
func (p *Pipeline) Run(ctx context.Context) error {
	err := p.sessions(ctx)
	if halt, ok := core.AsHalt(err); ok {
		p.board.update(func(s *Status) { s.State, s.Reason, s.LastHalt = StateHalted, halt.Error(), halt })
		return halt
	}
	p.board.state(StateStopped, "")
	return err
}

func (p *Pipeline) sessions(ctx context.Context) error {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = reconnectMin, reconnectMax
	p.began = time.Now()
	for {
		before := p.Status().Durable
		err := p.session(ctx)
		if ctx.Err() != nil {
			return p.interrupted(ErrAbort)
		}
		if p.draining() && !isHalt(err) {
			return p.interrupted(p.drained()) // whatever was open is resolved by the next start
		}
		err = p.afterSession(err)
		var next *again
		if !errors.As(err, &next) {
			return err
		}
		if p.Status().Durable != before {
			pace.Reset()
		}
		p.note(next)
		if wait := p.options.SinkWait; wait > 0 && !p.greeted && time.Since(p.began) > wait {
			return core.NewHalt(core.HaltSinkUnavailable, "GetCapabilities", "no answer in %s", wait)
		}
		pause := next.wait
		if pause == 0 {
			pause = pace.NextBackOff()
		}
		select {
		case <-time.After(pause):
		case <-p.drain:
			return p.interrupted(p.drained())
		case <-ctx.Done():
			return p.interrupted(ErrAbort)
		}
	}
}

func isHalt(err error) bool {
	_, halted := core.AsHalt(err)
	return halted
}

// untilDrain is a context for the start of a session, which a drain ends at once: there
// is nothing in flight yet. The function it returns ends the watch.
func (p *Pipeline) untilDrain(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	var once sync.Once
	go func() {
		defer cancel()
		select {
		case <-p.drain:
		case <-over:
		case <-ctx.Done():
		}
	}()
	return ctx, func() { once.Do(func() { close(over) }) }
}

func (p *Pipeline) draining() bool {
	select {
	case <-p.drain:
		return true
	default:
		return false
	}
}

// session runs one session; a panic in it is a halt.
func (p *Pipeline) session(ctx context.Context) (err error) {
	p.waiting.Store(nil)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() {
		if halt := p.caught("loop", recover()); halt != nil {
			err = halt
		}
	}()
	return (&session{pipeline: p}).run(ctx)
}

// notReady makes the function by which deliver says that it is kept waiting, and why; ""
// when that is over.
func (p *Pipeline) notReady(state State) func(reason string) {
	return func(reason string) {
		if reason == "" {
			if p.waiting.Swap(nil) != nil {
				p.board.state(StateStreaming, "")
			}
			return
		}
		if p.waiting.Swap(&waiting{state, reason}) == nil {
			p.log.Warn("waiting", "state", string(state), "reason", reason)
		}
		p.board.state(state, reason)
	}
}

// catch turns a panic of a working goroutine into the end of the session.
func (p *Pipeline) catch(where string, cancel context.CancelCauseFunc) {
	if halt := p.caught(where, recover()); halt != nil {
		cancel(halt)
	}
}

func (p *Pipeline) caught(where string, panicked any) *core.Halt {
	if panicked == nil {
		return nil
	}
	// The panic's own value may quote data; its type and the stack do not.
	p.log.Error("panic", "where", where, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
	return core.NewHalt(core.HaltPanic, where, "panic of type %T", panicked)
}
