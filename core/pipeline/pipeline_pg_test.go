package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.NoLeaks()) }

// running is a pipeline in a goroutine.
type running struct {
	*pipeline.Pipeline
	done   chan error
	cancel context.CancelFunc
}

func options(db *pgtest.DB, slot string, sink core.Sink) pipeline.Options {
	return pipeline.Options{
		Source:        wal.Options{DSN: db.DSN, Slot: slot, Publications: []string{"p"}},
		Sink:          sink,
		GoForwardOnly: true,
	}
}

func start(t *testing.T, o pipeline.Options) *running {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	p, err := pipeline.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{p, make(chan error, 1), cancel}
	go func() { r.done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-r.done:
		case <-time.After(patience):
			t.Error("the pipeline does not end")
		}
	})
	return r
}

// wait returns what Run returned.
func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(patience):
		t.Fatal("the pipeline does not end")
		return nil
	}
}

func (r *running) streaming(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return r.Status().State == pipeline.StateStreaming }, patience, 2*time.Millisecond)
}

// slot is a name that is free on a server shared by tests.
func slot(db *pgtest.DB) string { return "s_" + fmt.Sprintf("%x", time.Now().UnixNano()) }

func TestRoad(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table t(id int primary key, v text)", "create publication p for table t")
		for _, mode := range []pipeline.Mode{pipeline.ModeBatch, pipeline.ModeTransaction} {
			sink := sinktest.NewMemory()
			o := options(db, slot(db), sink)
			o.Delivery.Mode = mode
			r := start(t, o)
			r.streaming(t)
			db.Exec(t, "truncate t", "insert into t values (1,'a'),(2,null)", "update t set v='b' where id=1", "delete from t where id=2")
			require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 4 }))
			r.Drain()
			require.NoError(t, r.wait(t))
			log := sink.Transactions()
			require.Equal(t, core.OpTruncate, log[0].Changes[0].Op)
			require.Len(t, log[1].Changes, 2)
			require.Equal(t, "tn", string(log[1].Changes[1].New.Kinds()))
			require.Equal(t, "b", string(log[2].Changes[0].New.Value(1).Text))
			require.Equal(t, "ta", string(log[3].Changes[0].Old.Kinds()))
			require.Equal(t, sink.Stored().Position, confirmed(t, db, o.Source.Slot), "a drain tells Postgres the last position")

			// A second run goes on where the first ended, under a higher epoch.
			again := start(t, o)
			again.streaming(t)
			db.Exec(t, "insert into t values (3,'c')")
			require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 5 }))
			require.Greater(t, again.Status().Epoch, r.Status().Epoch)
			again.Drain()
			require.NoError(t, again.wait(t))
		}
	})
}

func confirmed(t *testing.T, db *pgtest.DB, slot string) core.LSN {
	t.Helper()
	var text string
	require.NoError(t, db.Conn(t).QueryRow(t.Context(), "select confirmed_flush_lsn::text from pg_replication_slots where slot_name=$1", slot).Scan(&text))
	lsn, err := core.ParseLSN(text)
	require.NoError(t, err)
	return lsn
}
