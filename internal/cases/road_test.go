package cases_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// route is how a road reaches its sink.
type route bool

const (
	overGRPC  route = false
	inProcess route = true
)

// way is what may differ between roads; the zero value is gRPC, a superuser, batches.
type way struct {
	route route
	role  string
	mode  pipeline.Mode
	// publications to stream; "p", all tables, when empty.
	publications []string
	slot         string
	messages     bool
	// streaming asks for transactions in progress, and makes the server find everything
	// worth streaming.
	streaming bool
	// schemaChanges: the sink takes them.
	schemaChanges bool
	// limits of the sink.
	limits core.SinkLimits
	// wrap puts something between the road and its store.
	wrap func(*sinktest.Memory) core.Sink
	// before is asked before a unit takes effect, after once it has; an error refuses
	// it, or stands for a lost answer. Both run under the sink's lock.
	before, after func(to core.LSN) error
	// adjust changes the options last.
	adjust func(*pipeline.Options)
	// resumes: the sink keeps the resume state.
	resumes bool
	// away says that the server may be stopped while the sink stores something.
	away bool
	// waits says that streaming is not expected to begin.
	waits bool
}

// road is a slot, a sidecar and a sink. The sidecar may end and begin again; slot and
// sink stay.
type road struct {
	*scene
	way
	sink    *sinktest.Memory
	door    core.Sink     // what the pipeline gets
	watch   *session      // looks at the slot
	durable atomic.Uint64 // highest position that the sink stored
	samples atomic.Int64
	spill   string // folder
	bell    chan struct{}

	pipeline *pipeline.Pipeline
	abort    context.CancelFunc
	ended    chan struct{} // closed when Run returned
	result   error
}

var slots atomic.Int64

// road makes a road and waits until it streams.
func (s *scene) road(w way) *road {
	s.Helper()
	if w.role == "" {
		w.role = "postgres"
	}
	if len(w.publications) == 0 {
		w.publications = []string{"p"}
	}
	if w.slot == "" {
		w.slot = fmt.Sprintf("case_%d_%d", os.Getpid(), slots.Add(1))
	}
	r := &road{scene: s, way: w, sink: sinktest.NewMemory(), bell: make(chan struct{}, 1)}
	r.sink.Caps.Limits = w.limits
	if w.schemaChanges {
		r.sink.Caps.Set |= core.NewCapabilitySet(core.CapSchemaChange)
	}
	if w.resumes {
		r.sink.Caps.Set |= core.NewCapabilitySet(core.CapResumeState)
	}
	if w.messages {
		r.sink.Caps.Set |= core.NewCapabilitySet(core.CapMessage)
	}
	r.watch = s.session("postgres", pinned)
	r.sink.Before = func(_ core.Call, to core.LSN) error {
		r.sample()
		if w.before != nil {
			return w.before(to)
		}
		return nil
	}
	r.sink.After = func(_ core.Call, to core.LSN) error {
		r.durable.Store(max(r.durable.Load(), uint64(to)))
		r.sample()
		select {
		case r.bell <- struct{}{}:
		default:
		}
		if w.after != nil {
			return w.after(to)
		}
		return nil
	}
	r.openDoor()
	s.roads = append(s.roads, r)
	r.begin()
	return r
}

// sample is the rule of all rules: the slot's confirmed position is never above what
// the sink stored. It runs on the sink's side, at every unit.
func (r *road) sample() {
	durable := core.LSN(r.durable.Load())
	if durable == 0 {
		return // the slot was just made, its position is about to be stored
	}
	confirmed, err := r.slotPosition()
	switch {
	case err != nil && r.away:
		return
	case err != nil:
		r.Errorf("the slot cannot be looked at: %v", err)
	case confirmed > durable:
		r.Errorf("the slot is confirmed up to %s, the sink has stored %s", confirmed, durable)
	}
	r.samples.Add(1)
}

func (r *road) slotPosition() (core.LSN, error) {
	answer, err := r.watch.try("select confirmed_flush_lsn from pg_replication_slots where slot_name=" + literal(r.slot))
	if err != nil {
		return 0, err
	}
	if len(answer.rows) != 1 || answer.rows[0][0] == nil {
		return 0, errors.New("there is no such slot")
	}
	return core.ParseLSN(*answer.rows[0][0])
}

func (r *road) confirmed() core.LSN {
	r.Helper()
	at, err := r.slotPosition()
	require.NoError(r, err)
	return at
}

// openDoor connects the road to its store, in-process or through gRPC.
func (r *road) openDoor() {
	var inner core.Sink = r.sink
	switch {
	case r.wrap != nil:
		inner = r.wrap(r.sink)
	case r.messages:
		inner = messageTaker{r.sink, r}
	}
	if r.route == inProcess {
		r.door = inner
		return
	}
	dir, err := os.MkdirTemp("", "case") // a socket's path must be short
	require.NoError(r, err)
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	require.NoError(r, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- sink.ServeListener(ctx, listener, inner, sink.WithGrace(time.Second)) }()
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + path})
	require.NoError(r, err)
	r.Cleanup(func() {
		_ = remote.Close()
		cancel()
		require.NoError(r, <-served)
	})
	r.door = remote
}

// messageTaker also notes the position of a message outside transactions.
type messageTaker struct {
	*sinktest.Memory
	r *road
}

func (m messageTaker) HandleMessage(ctx context.Context, u *core.MessageUnit) (core.Ack, error) {
	ack, err := m.Memory.HandleMessage(ctx, u)
	if err == nil {
		m.r.durable.Store(max(m.r.durable.Load(), uint64(u.Checkpoint)))
	}
	return ack, err
}

// begin starts a sidecar on the slot, and waits until it streams.
func (r *road) begin() {
	r.Helper()
	o := pipeline.Options{
		Source: wal.Options{
			DSN: r.dsn(r.role), Slot: r.slot, Publications: r.publications, Messages: r.messages,
			StatusInterval: 20 * time.Millisecond,
		},
		Sink: r.door, GoForwardOnly: true, Delivery: pipeline.Delivery{Mode: r.mode},
		Logger: slog.New(slog.NewTextHandler(r.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if r.streaming {
		r.streamed(&o)
	}
	if r.adjust != nil {
		r.adjust(&o)
	}
	var err error
	r.pipeline, err = pipeline.New(o)
	require.NoError(r, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	r.abort, r.ended = cancel, ended
	go func() {
		r.result = r.pipeline.Run(ctx)
		close(ended)
	}()
	r.Cleanup(func() {
		cancel()
		<-ended
	})
	if !r.waits {
		r.until("it streams", func() bool { return r.pipeline.Status().State == pipeline.StateStreaming })
	}
}

// streamed makes the server stream every change by itself from 16 on, and before that
// what exceeds 64 kB.
func (r *road) streamed(o *pipeline.Options) {
	settings := "-c logical_decoding_work_mem=64kB"
	if r.major >= 16 {
		settings += " -c debug_logical_replication_streaming=immediate"
	}
	o.Source.Streaming = true
	o.Source.DSN += "&options=" + strings.ReplaceAll(url.QueryEscape(settings), "+", "%20")
	if r.spill == "" {
		r.spill = r.TempDir()
	}
	o.Spill = pipeline.Spilling{Dir: r.spill, Resident: 4 << 10}
}

// until waits for a fact. It looks again whenever the sink stored something, and now
// and then.
func (r *road) until(what string, fact func() bool) {
	r.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !fact() {
		select {
		case <-r.bell:
		case <-look.C:
		case <-r.ended:
			if !fact() {
				require.FailNow(r, "the sidecar ended before "+what, "%v", r.result)
			}
			return
		case <-deadline.C:
			require.FailNow(r, "not in time: "+what, "status %+v", r.pipeline.Status())
		}
	}
}

// over waits for the end of the sidecar.
func (r *road) over() error {
	r.Helper()
	select {
	case <-r.ended:
		return r.result
	case <-time.After(patience):
		require.FailNow(r, "the sidecar does not end", "status %+v", r.pipeline.Status())
		return nil
	}
}

// halts waits for the sidecar to stop by its own decision, with this code.
func (r *road) halts(code core.HaltCode) *core.Halt {
	r.Helper()
	halt, ok := core.AsHalt(r.over())
	require.True(r, ok, "ended with %v", r.result)
	require.Equal(r, code, halt.Code, halt.Error())
	return halt
}

// crash ends the sidecar at once; nothing is confirmed on the way out.
func (r *road) crash() {
	r.Helper()
	r.abort()
	require.ErrorIs(r, r.over(), pipeline.ErrAbort)
}

// drain stops the sidecar in order.
func (r *road) drain() {
	r.Helper()
	r.pipeline.Drain()
	require.NoError(r, r.over())
	require.Equal(r, r.sink.Stored().Position, r.confirmed(), "a drain tells Postgres the last position")
}
