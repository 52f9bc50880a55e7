package testsink_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/pgstore"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/process"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// patience bounds every wait; nothing sleeps for it.
const patience = 30 * time.Second

// road is a source, a destination, and a sidecar between them that may end and begin
// again. Its sink runs in this process, or as one of its own.
type road struct {
	*testing.T
	source, sink *pgtest.DB
	slot, socket string
	config       testsink.Config
	options      pipeline.Options
	process      *process.Process
	sidecar      *sidecar
	calls        sync.Map // names of the calls that a sink in this process has had
}

var roads atomic.Int64

// newRoad makes the databases; schema is run at the source before the publication p of
// all tables.
func newRoad(t *testing.T, pg *pgtest.Server, config testsink.Config, schema ...string) *road {
	t.Helper()
	r := &road{T: t, source: pg.Database(t), sink: pg.Database(t), config: config}
	n := roads.Add(1)
	r.slot = fmt.Sprintf("ts_%d_%d", os.Getpid(), n)
	dir, err := os.MkdirTemp("", "ts")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r.socket = filepath.Join(dir, "s")
	r.config.DSN = r.sink.DSN
	r.source.Exec(t, append(append([]string{judge.LedgerTable}, schema...), "CREATE PUBLICATION p FOR ALL TABLES")...)
	r.options = pipeline.Options{
		Source: wal.Options{
			DSN: r.source.DSN, Slot: r.slot, Publications: []string{"p"}, StatusInterval: 20 * time.Millisecond,
		},
		GoForwardOnly: true,
	}
	return r
}

// serve runs the sink in this process.
func (r *road) serve() {
	r.Helper()
	listener, err := net.Listen("unix", r.socket)
	require.NoError(r, err)
	store := testsink.Open(r.config)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	options := append(store.Options(), sink.WithGrace(2*time.Second),
		sink.WithLogger(slog.New(slog.NewTextHandler(r.Output(), nil))),
		sink.WithCallObserver(func(call string, _ codes.Code, _ time.Duration) { r.calls.Store(call, true) }))
	go func() { served <- sink.ServeListener(ctx, listener, store.Sink(), options...) }()
	r.Cleanup(func() {
		cancel()
		require.NoError(r, <-served)
		store.Close()
	})
}

// spawn runs the sink as a program, with points armed. Its witness is returned.
func (r *road) spawn(points string) (witness string) {
	r.Helper()
	witness = filepath.Join(r.TempDir(), "witness")
	env := []string{"TESTSINK_DSN=" + r.sink.DSN, "TESTSINK_KIND=" + string(r.config.Kind)}
	if r.config.Lib {
		env = append(env, "TESTSINK_PROFILE=lib")
	}
	if r.config.Breach.What != "" {
		env = append(env, fmt.Sprintf("TESTSINK_BREACH=%s@%d", r.config.Breach.What, r.config.Breach.From))
	}
	p, err := process.Start(process.Options{Socket: r.socket, Env: env, Points: points, Witness: witness})
	require.NoError(r, err)
	r.process = p
	r.Cleanup(func() {
		p.Kill()
		if r.Failed() {
			r.Logf("the sink said: %s", p.Stderr())
		}
	})
	return witness
}

// sidecar is one life of a sidecar.
type sidecar struct {
	*pipeline.Pipeline
	cancel context.CancelFunc
	ended  chan struct{}
	result error
}

// begin starts a sidecar.
func (r *road) begin() *sidecar {
	r.Helper()
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + r.socket})
	require.NoError(r, err)
	o := r.options
	o.Sink = remote
	o.Logger = slog.New(slog.NewTextHandler(r.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if r.config.Lib {
		store, err := pgstore.New(pgstore.Options{DSN: r.sink.DSN})
		require.NoError(r, err)
		r.Cleanup(func() { _ = store.Close() })
		o.Store = store
	}
	p, err := pipeline.New(o)
	require.NoError(r, err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &sidecar{Pipeline: p, cancel: cancel, ended: make(chan struct{})}
	go func() {
		s.result = p.Run(ctx)
		close(s.ended)
	}()
	r.Cleanup(func() {
		cancel()
		<-s.ended
		_ = remote.Close()
	})
	r.sidecar = s
	return s
}

// stream starts a sidecar and waits until it streams.
func (r *road) stream() *sidecar {
	r.Helper()
	s := r.begin()
	r.until("it streams", func() bool { return s.Status().State == pipeline.StateStreaming })
	return s
}

// drain stops the sidecar in order.
func (r *road) drain() {
	r.Helper()
	r.sidecar.Drain()
	require.NoError(r, r.over())
}

// crash ends the sidecar at once.
func (r *road) crash() {
	r.Helper()
	r.sidecar.cancel()
	require.ErrorIs(r, r.over(), pipeline.ErrAbort)
}

func (r *road) over() error {
	r.Helper()
	select {
	case <-r.sidecar.ended:
		return r.sidecar.result
	case <-time.After(patience):
		require.FailNow(r, "the sidecar does not end", "status %+v", r.sidecar.Status())
		return nil
	}
}

func (r *road) halts(code core.HaltCode) {
	r.Helper()
	halt, ok := core.AsHalt(r.over())
	require.True(r, ok, "ended with %v", r.sidecar.result)
	require.Equal(r, code, halt.Code, halt.Error())
}

func (r *road) until(what string, fact func() bool) {
	r.Helper()
	for deadline := time.Now().Add(patience); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(r, "not in time: "+what, "status %+v", r.sidecar.Status())
		}
	}
}

// durable is where the position is kept.
func (r *road) durable() judge.Durable {
	if r.config.Lib {
		return func(ctx context.Context) (core.LSN, error) {
			var text string
			conn := r.sink.Conn(r)
			if err := conn.QueryRow(ctx, "SELECT max(pos)::text FROM replicant_checkpoints").Scan(&text); err != nil {
				return 0, err
			}
			return core.ParseLSN(text)
		}
	}
	return judge.AtSink(r.sink.DSN, r.slot)
}

// arrived waits until the last transaction of a shard is in the log or the mirror's
// ledger.
func (r *road) arrived(shard, tx int) {
	r.Helper()
	sql := "SELECT EXISTS (SELECT FROM public.ledger WHERE shard = $1::text AND tx = $2::text)"
	if r.config.Kind == testsink.KindLog {
		sql = `SELECT EXISTS (SELECT FROM testsink.log WHERE relation = 'public.ledger'
			AND payload::jsonb->'new'->>'shard' = $1::text AND payload::jsonb->'new'->>'tx' = $2::text)`
	}
	conn := r.sink.Conn(r)
	r.until(fmt.Sprintf("transaction %d of shard %d arrives", tx, shard), func() bool {
		var there bool
		err := conn.QueryRow(r.Context(), sql, fmt.Sprint(shard), fmt.Sprint(tx)).Scan(&there)
		return err == nil && there
	})
}

// mirrored requires the mirror to equal the source.
func (r *road) mirrored(tables, rows int) {
	r.Helper()
	report, err := judge.Mirror(r.Context(), r.source.DSN, r.sink.DSN, "p")
	require.NoError(r, err)
	require.NoError(r, report.Err())
	require.GreaterOrEqual(r, report.Tables, tables)
	require.GreaterOrEqual(r, report.Rows, rows)
}

// log reads the log, and requires it to hold what the ledger says.
func (r *road) log() *judge.LogReport {
	r.Helper()
	report, err := judge.Log(r.Context(), r.sink.DSN, r.slot)
	require.NoError(r, err)
	require.NoError(r, report.Against(r.Context(), r.source.DSN))
	require.NoError(r, judge.Order(r.Context(), r.sink.DSN, r.slot))
	return report
}

// tx is one transaction of shard 1 with its line of the ledger.
func (r *road) tx(n int, changes int, statements ...string) {
	r.Helper()
	sql := "BEGIN;"
	for _, s := range statements {
		sql += s + ";"
	}
	sql += fmt.Sprintf("INSERT INTO ledger VALUES (1, %d, %d); COMMIT", n, changes+1)
	r.source.Exec(r, sql)
}
