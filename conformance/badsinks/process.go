package badsinks

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"google.golang.org/grpc"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Process is a reference sink in this process that can be killed like one of its own. It
// is a target, a probe of its store, and a crasher at each write of its disk.
type Process struct {
	variant Variant
	defect  Defect
	disk    disk
	dir     string
	guard   *guard // of a guarded variant

	mu     sync.Mutex
	server *grpc.Server
	served chan struct{}
	sink   *Sink
}

// New makes a stopped sink. Close removes what it left.
func New(v Variant, defect Defect) (*Process, error) {
	dir, err := os.MkdirTemp("", "refsink")
	if err != nil {
		return nil, err
	}
	p := &Process{variant: v, defect: defect, dir: dir}
	if v.Guarded {
		if p.guard, err = newGuard(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return p, nil
}

// Close stops it for good.
func (p *Process) Close() error {
	_ = p.Kill(context.Background())
	return os.RemoveAll(p.dir)
}

// Address is a socket.
func (p *Process) Address() string { return "unix:" + filepath.Join(p.dir, "s") }

// Mode is that of a report.
func (p *Process) Mode() string { return "in-process" }

// Lifecycle reports that it can be killed.
func (p *Process) Lifecycle() bool { return true }

// Output is empty, but for a sink that prints what it should not.
func (p *Process) Output() string {
	if p.guard == nil {
		return ""
	}
	return p.guard.printed.String()
}

// Start starts it, or does nothing.
func (p *Process) Start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return nil
	}
	listener, err := net.Listen("unix", filepath.Join(p.dir, "s"))
	if err != nil {
		return err
	}
	p.sink = newSink(&p.disk, p.variant, p.defect)
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(p.receives()), grpc.MaxSendMsgSize(sinkv1.MaxReceiveBytes)}
	p.server = grpc.NewServer(append(options, p.guards()...)...)
	p.sink.register(p.server)
	served := make(chan struct{})
	p.served = served
	server := p.server
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	return nil
}

// receives is the server's receive limit.
func (p *Process) receives() int {
	if p.defect == OtherCodeForLarge {
		return sinkv1.MaxReceiveBytes
	}
	return 8 << 20
}

// Kill ends it at once: handlers that still run can write no more.
func (p *Process) Kill(context.Context) error {
	p.disk.kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server.Stop()
		<-p.served
		p.server, p.sink = nil, nil
	}
	return nil
}

// Stop lets calls end first.
func (p *Process) Stop(ctx context.Context) error {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	if server != nil {
		server.GracefulStop()
	}
	return p.Kill(ctx)
}

// state is what is committed: of a running sink what it shows, of a stopped one what is
// on its disk.
func (p *Process) state() (map[string]map[string]any, func()) {
	p.mu.Lock()
	sink := p.sink
	p.mu.Unlock()
	if sink != nil && !p.variant.Remote { // whose store is read without it
		sink.store.mu.RLock()
		return sink.store.state, sink.store.mu.RUnlock
	}
	return p.disk.read(), func() {}
}

// WorksStopped reports that it reads the disk.
func (p *Process) WorksStopped() bool { return true }

// Reset forgets nothing.
func (p *Process) Reset(context.Context, string) error { return nil }

// ReadTable reads a table.
func (p *Process) ReadTable(_ context.Context, schema, table string) (conformance.Table, error) {
	state, done := p.state()
	defer done()
	rows, ok := state["t:"+schema+"\x00"+table]
	if !ok {
		return conformance.Table{Missing: true}, nil
	}
	var out conformance.Table
	at := map[string]int{}
	for _, stored := range rows {
		r := stored.(row)
		for name := range r.columns {
			if _, known := at[name]; !known {
				at[name] = len(out.Columns)
				out.Columns = append(out.Columns, name)
			}
		}
	}
	for _, stored := range rows {
		r := stored.(row)
		values := make([]conformance.Value, len(out.Columns))
		for i, name := range out.Columns {
			v, known := r.columns[name]
			values[i] = conformance.Value{Null: v.null, Text: v.text, Unknown: !known}
		}
		out.Rows = append(out.Rows, values)
	}
	return out, nil
}

// ReadLog reads a stream's log.
func (p *Process) ReadLog(_ context.Context, stream string) ([]conformance.LogEntry, error) {
	state, done := p.state()
	defer done()
	t := tx{store: &store{state: state}}
	var out []conformance.LogEntry
	for _, k := range t.keys("l:" + stream) {
		out = append(out, conformance.LogEntryOf(state["l:"+stream][k].(entry)))
	}
	return out, nil
}

// Engine names the crasher.
func (p *Process) Engine() string { return "store" }

// Visit kills at each write of the disk in turn.
func (p *Process) Visit(ctx context.Context, plan conformance.CrashPlan) (conformance.CrashMap, error) {
	var killed chan struct{}
	arm := func(n int) {
		killed = make(chan struct{})
		over := killed
		p.disk.arm(n, func() {
			defer close(over)
			_ = p.Kill(context.Background())
		})
	}
	return p.visit(ctx, plan, p.Engine(), arm, func() error {
		<-killed
		return p.again(ctx)
	})
}

// visit strikes at each write in turn; recover is what follows.
func (p *Process) visit(ctx context.Context, plan conformance.CrashPlan, engine string, arm func(n int), recover func() error) (conformance.CrashMap, error) {
	m := conformance.CrashMap{Label: plan.Label, Engine: engine}
	for n := 1; ; n++ {
		if err := p.Start(ctx); err != nil {
			return m, err
		}
		if err := plan.Prepare(ctx, n); err != nil {
			return m, err
		}
		arm(n)
		err := plan.Act(ctx, n)
		hit, calls := p.disk.disarm()
		if !hit && err != nil {
			return m, err
		}
		point := conformance.CrashPoint{N: n, Call: "write", Side: conformance.Survived}
		if hit {
			if err := recover(); err != nil {
				return m, err
			}
		}
		side, detail, err := plan.Judge(ctx, n)
		if err != nil {
			return m, err
		}
		if hit {
			point.Side, point.Detail = side, detail
		} else if side != conformance.After {
			point.Side, point.Detail = conformance.Torn, "nothing was killed, and yet: "+detail
		}
		m.Points = append(m.Points, point)
		if !hit || point.Side == conformance.Torn {
			m.Total = calls
			if len(m.Points) == 1 && !hit {
				return m, errors.New("no write was seen in " + strconv.Itoa(calls))
			}
			return m, nil
		}
	}
}

func (p *Process) again(ctx context.Context) error {
	if err := p.Kill(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}
