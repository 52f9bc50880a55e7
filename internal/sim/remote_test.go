package sim

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
	sdk "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// remote serves the model over gRPC, with the SDK, on listeners in memory.
type remote struct {
	w       *world
	mu      sync.Mutex
	at      *listener // nil while the sink is away
	cancel  context.CancelFunc
	served  sync.WaitGroup
	waiting sync.WaitGroup
}

func newRemote(w *world) *remote {
	r := &remote{w: w}
	r.start()
	return r
}

func (r *remote) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.w.over:
		return
	default:
	}
	at := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	r.at, r.cancel = at, cancel
	r.served.Go(func() {
		_ = sdk.ServeListener(ctx, at, r.sink(), sdk.WithGrace(time.Millisecond), sdk.WithServerOptions(r.w.forging()...))
	})
}

func (r *remote) halt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != nil {
		r.at.cut()
		r.cancel()
		r.at = nil
	}
}

// cut ends the connections that there are; the sink stays.
func (r *remote) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != nil {
		r.at.cut()
	}
}

// restart is a new process: the SDK's memory is a fresh one.
func (r *remote) restart(away time.Duration) {
	r.halt()
	r.waiting.Go(func() {
		sleepOr(away, r.w.over)
		r.halt()
		r.start()
	})
}

func (r *remote) stop() {
	r.waiting.Wait()
	r.halt()
	r.served.Wait()
}

// dial is how a sidecar reaches the sink.
func (r *remote) dial(g *generation) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		g.gate.pass()
		r.mu.Lock()
		at := r.at
		r.mu.Unlock()
		if at == nil {
			return nil, syscall.ECONNREFUSED
		}
		near, far := waltest.Pipe()
		select {
		case at.conns <- far:
			at.keep(far)
			return near, nil
		case <-at.closed:
			return nil, syscall.ECONNREFUSED
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// listener hands over connections in memory.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	open   []net.Conn
}

func (l *listener) keep(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, conn)
}

// cut ends every connection at once.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.open {
		_ = conn.Close()
	}
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is a loopback address, which it is not.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// sink is the model as a sink of the SDK: with the methods that its capabilities need
// and no others, since the SDK advertises by them.
func (r *remote) sink() core.Sink {
	base := farSink{r.w}
	checkpoint, large, message, schema := farCheckpoint{r.w}, farLarge{r.w}, farMessage{r.w}, farSchema{r.w}
	p := &r.w.plan
	n := 0
	for i, on := range []bool{!p.lib, p.large, p.messages, p.tellShapes} {
		if on {
			n |= 1 << i
		}
	}
	type (
		c = farCheckpoint
		l = farLarge
		m = farMessage
		s = farSchema
	)
	return [...]core.Sink{
		base,
		struct {
			farSink
			c
		}{base, checkpoint},
		struct {
			farSink
			l
		}{base, large},
		struct {
			farSink
			c
			l
		}{base, checkpoint, large},
		struct {
			farSink
			m
		}{base, message},
		struct {
			farSink
			c
			m
		}{base, checkpoint, message},
		struct {
			farSink
			l
			m
		}{base, large, message},
		struct {
			farSink
			c
			l
			m
		}{base, checkpoint, large, message},
		struct {
			farSink
			s
		}{base, schema},
		struct {
			farSink
			c
			s
		}{base, checkpoint, schema},
		struct {
			farSink
			l
			s
		}{base, large, schema},
		struct {
			farSink
			c
			l
			s
		}{base, checkpoint, large, schema},
		struct {
			farSink
			m
			s
		}{base, message, schema},
		struct {
			farSink
			c
			m
			s
		}{base, checkpoint, message, schema},
		struct {
			farSink
			l
			m
			s
		}{base, large, message, schema},
		struct {
			farSink
			c
			l
			m
			s
		}{base, checkpoint, large, message, schema},
	}[n]
}

// farSink is what every sink has.
type farSink struct{ w *world }

// Capabilities is what the model says; the SDK adds what it sees.
func (s farSink) Capabilities(context.Context) (core.Capabilities, error) {
	return s.w.sink.capabilities(), nil
}

// HandleTransaction stores a unit.
func (s farSink) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return s.w.handle(ctx, workOf(s.w, "HandleTransaction", u))
}

// HandleBatch stores a unit.
func (s farSink) HandleBatch(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return s.w.handle(ctx, workOf(s.w, "HandleBatch", u))
}

// handle is a writing call in its handler: the weather of the road is met here.
func (w *world) handle(ctx context.Context, job *work) (core.Ack, error) {
	w.mu.Lock()
	f, rng := w.weather, w.sink.rng
	lost, mute, failure := percent(rng, f.lost+f.late), percent(rng, f.mute), broken(rng)
	w.mu.Unlock()
	switch {
	case f.away:
		return core.Ack{}, status.Error(codes.Unavailable, "away")
	case lost:
		return core.Ack{}, failure
	}
	at, err := w.sink.do(ctx, job)
	if err == nil && mute {
		err = failure
	}
	return core.Ack{Checkpoint: at}, err
}

type farCheckpoint struct{ w *world }

// Checkpoint reads or claims.
func (s farCheckpoint) Checkpoint(ctx context.Context, q core.CheckpointRequest) (core.Checkpoint, error) {
	s.w.mu.Lock()
	away := s.w.weather.away
	s.w.mu.Unlock()
	if away {
		return core.Checkpoint{}, status.Error(codes.Unavailable, "away")
	}
	return s.w.sink.claim(ctx, q)
}

type farLarge struct{ w *world }

// HandleLargeTransaction stores a transaction that comes in pieces.
func (s farLarge) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	whole := &collector{w: s.w, from: l}
	job := whole.job()
	for job.checkpoint == 0 {
		if _, err := whole.Next(ctx); err != nil {
			return core.Ack{}, err
		}
	}
	return s.w.handle(ctx, job)
}

type farMessage struct{ w *world }

// HandleMessage stores a message.
func (s farMessage) HandleMessage(ctx context.Context, u *core.MessageUnit) (core.Ack, error) {
	return s.w.handle(ctx, messageWork(s.w, u))
}

type farSchema struct{ w *world }

// HandleSchemaChange is told a shape.
func (s farSchema) HandleSchemaChange(ctx context.Context, u *core.SchemaChangeUnit) error {
	_, err := s.w.handle(ctx, schemaWork(s.w, u))
	return err
}
