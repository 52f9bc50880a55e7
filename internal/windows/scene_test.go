package windows

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

// limit bounds one row.
const limit = 150 * time.Second

// scene is one row's source, sink and, in lib mode, store, with the processes between.
type scene struct {
	*testing.T
	house    *house
	ctx      context.Context
	major    int            // of all its servers
	server   *pgtest.Server // of the source
	source   *pgtest.DB
	reads    *pgtest.DB // where the slot is, if not at the source
	sink     *pgtest.DB
	store    *pgtest.DB // nil where the sink keeps the checkpoint
	slot     string
	dir      string
	address  string   // of the sink, for the sidecar
	from     string   // DSN of the source, for the sidecar
	to       string   // DSN of the sink's database, for the sink
	keep     string   // DSN of the store, for the sidecar
	intent   []string // what a stream without a checkpoint begins with
	args     []string
	env      []string
	kind     string
	shard    int
	tx       int
	started  int
	watching *judge.Watch
	saw      []string
}

var scenes atomic.Int64

func newScene(t *testing.T, h *house, major int) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	dir, err := os.MkdirTemp("", "rw")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &scene{
		T: t, house: h, ctx: ctx, major: major, server: h.server[major], dir: dir, kind: "both", shard: 1,
		slot: fmt.Sprintf("w_%d", scenes.Add(1)), args: []string{"--delivery-mode", "transaction"}, intent: []string{"--go-forward-only"},
	}
}

// long gives a row more time.
func (s *scene) long(limit time.Duration) *scene {
	ctx, cancel := context.WithTimeout(s.T.Context(), limit)
	s.Cleanup(cancel)
	s.ctx = ctx
	return s
}

const schema = "CREATE TABLE t (id bigint PRIMARY KEY, v text); CREATE TABLE plain (id bigint)"

// own gives the source a server of its own, for rows that end it.
func (s *scene) own() *scene {
	s.Helper()
	s.server = pgtest.Own(s.T, s.major, pgembed.Options{Settings: quiet})
	return s
}

// lib keeps the checkpoint in the sidecar's own store, written once for n transactions.
func (s *scene) lib(n int) *scene {
	s.Helper()
	s.store = s.house.sinks[s.major].Database(s.T)
	s.keep = s.store.DSN
	s.args = nil
	if n > 1 {
		s.args = append(s.args, "--checkpoint-store-batch-max-transactions", fmt.Sprint(n))
	}
	s.env = append(s.env, "TESTSINK_PROFILE=lib")
	return s
}

// batch lets the sink take n transactions a call.
func (s *scene) batch(n int) *scene {
	s.args = []string{"--delivery-mode", "batch", "--delivery-max-transactions", fmt.Sprint(n)}
	return s
}

// make creates the databases. The publication leaves plain out.
func (s *scene) make() {
	s.Helper()
	if s.source == nil {
		s.source = s.server.Database(s.T)
	}
	if s.sink == nil {
		s.sink = s.house.sinks[s.major].Database(s.T)
	}
	if s.from == "" {
		s.from = s.source.DSN
	}
	if s.to == "" {
		s.to = s.sink.DSN
	}
	s.address = "unix:" + filepath.Join(s.dir, "s")
	s.source.Exec(s.T, judge.LedgerTable, schema, "CREATE PUBLICATION p FOR TABLE ledger, t")
}

// base makes slot and first position, delivers one transaction, and stops all in order.
// From there on ACK and MONO are sampled.
func (s *scene) base() *scene {
	s.Helper()
	sink, sidecar := s.up()
	s.stop(sidecar)
	s.end(sink)
	return s
}

// up makes the databases and starts both; they stay up with one transaction delivered.
func (s *scene) up() (*sinkProcess, *sidecar) {
	s.Helper()
	if s.source == nil || s.address == "" {
		s.make()
	}
	sink := s.startSink("")
	sidecar := s.startSidecar("")
	s.until("the stream has a base", func() bool {
		at, err := s.durable()(s.ctx)
		return err == nil && at != 0
	})
	s.streaming()
	s.watch()
	s.write()
	s.arrived()
	return sink, sidecar
}

// watch samples ACK and MONO from now on.
func (s *scene) watch() {
	watching := judge.StartWatch(s.slotAt(), s.slot, 100*time.Millisecond, s.durable())
	s.watching = watching
	s.Cleanup(func() { watching.Stop() })
}

// slotAt is the DSN of the database that has the slot.
func (s *scene) slotAt() string {
	if s.reads != nil {
		return s.reads.DSN
	}
	return s.source.DSN
}

// streaming waits until somebody reads the slot.
func (s *scene) streaming() {
	s.Helper()
	s.until("the slot is read", func() bool { return s.holder() != "" })
}

// holder is the process at the server that reads the slot, "" when there is none.
func (s *scene) holder() string {
	return s.ask(s.slotAt(), `SELECT coalesce(active_pid::text, '') FROM pg_replication_slots WHERE slot_name = $1`, s.slot)
}

// durable is where the position is kept.
func (s *scene) durable() judge.Durable {
	if s.store == nil {
		return judge.AtSink(s.sink.DSN, s.slot)
	}
	return func(ctx context.Context) (core.LSN, error) {
		conn, err := pgx.Connect(ctx, s.store.DSN)
		if err != nil {
			return 0, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		var text string
		if err := conn.QueryRow(ctx, "SELECT coalesce(max(pos), '0/0')::text FROM replicant_checkpoints WHERE stream_id = $1", s.slot).Scan(&text); err != nil {
			return 0, err
		}
		return core.ParseLSN(text)
	}
}

func (s *scene) until(what string, fact func() bool) {
	s.Helper()
	for !fact() {
		select {
		case <-s.ctx.Done():
			require.FailNow(s.T, "not in time: "+what)
		case <-time.After(15 * time.Millisecond):
		}
	}
}

// ask is one value as text, "" when there is none or the server is away.
func (s *scene) ask(dsn, sql string, args ...any) string {
	conn, err := pgx.Connect(s.ctx, dsn)
	if err != nil {
		return ""
	}
	defer conn.Close(context.WithoutCancel(s.ctx))
	var text *string
	if err := conn.QueryRow(s.ctx, sql, args...).Scan(&text); err != nil || text == nil {
		return ""
	}
	return *text
}

// line is the ledger's line of the next transaction, which has so many other changes.
func (s *scene) line(changes int) string {
	s.tx++
	return fmt.Sprintf("INSERT INTO ledger VALUES (%d, %d, %d)", s.shard, s.tx, changes+1)
}

// write commits a transaction of four changes.
func (s *scene) write() {
	s.Helper()
	s.commit(3, fmt.Sprintf("INSERT INTO t SELECT %d * 10000000::bigint + i, 'v' FROM generate_series(1, 3) i", s.shard*10000+s.tx+1))
}

// writeMany commits n of them.
func (s *scene) writeMany(n int) {
	s.Helper()
	for range n {
		s.write()
	}
}

// rows is a statement of n changes with about size bytes each.
func (s *scene) rows(n, size int) string {
	return fmt.Sprintf("INSERT INTO t SELECT %d * 10000000::bigint + i, repeat(md5(i::text), %d) FROM generate_series(1, %d) i", s.shard*10000+s.tx+1, max(size/32, 1), n)
}

// commit is one transaction with its line of the ledger.
func (s *scene) commit(changes int, statements ...string) {
	s.Helper()
	sql := "BEGIN;" + strings.Join(statements, ";") + ";"
	s.source.Exec(s.T, sql+s.line(changes)+"; COMMIT")
}

// session is a connection of a writer's own.
func (s *scene) session() *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(s.ctx, s.source.DSN)
	require.NoError(s.T, err)
	s.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (s *scene) do(conn *pgx.Conn, sql string) {
	s.Helper()
	_, err := conn.Exec(s.ctx, sql)
	require.NoError(s.T, err)
}

// there reports whether a transaction is at the sink.
func (s *scene) there(tx int) bool {
	sql := `SELECT 'yes' FROM testsink.log WHERE relation = 'public.ledger' AND payload::jsonb->'new'->>'shard' = $1::text AND payload::jsonb->'new'->>'tx' = $2::text LIMIT 1`
	if s.kind == "mirror" {
		sql = "SELECT 'yes' FROM public.ledger WHERE shard = $1::text AND tx = $2::text"
	}
	return s.ask(s.sink.DSN, sql, fmt.Sprint(s.shard), fmt.Sprint(tx)) == "yes"
}

// arrived waits for the last transaction.
func (s *scene) arrived() {
	s.Helper()
	s.until(fmt.Sprintf("transaction %d arrives", s.tx), func() bool { return s.there(s.tx) })
}

// judge waits for the last transaction and requires that nothing is lost, that the log
// goes back at most so many times by so many transactions, that the mirror is equal, that
// slot and checkpoint agree, that ACK and MONO held at every sample, and that nothing is
// left over.
func (s *scene) judge(times, transactions int) *judge.LogReport {
	s.Helper()
	s.arrived()
	at, err := judge.Settle(s.ctx, s.slotAt(), s.slot, 1, s.durable())
	require.NoError(s.T, err)
	require.NotZero(s.T, at)
	report := s.log()
	require.NoError(s.T, report.AtMost(times, transactions))
	if s.kind == "both" {
		mirror, err := judge.Mirror(s.ctx, s.source.DSN, s.sink.DSN, "p")
		require.NoError(s.T, err)
		require.NoError(s.T, mirror.Err())
	}
	s.sampled()
	s.until("CLEAN: nothing is left at the sink", func() bool {
		left, err := judge.Clean(s.ctx, s.sink.DSN)
		return err == nil && len(left) == 0
	})
	return report
}

// log is the append log, held against the source's ledger and its order.
func (s *scene) log() *judge.LogReport {
	s.Helper()
	report, err := judge.Log(s.ctx, s.sink.DSN, s.slot)
	require.NoError(s.T, err)
	require.Empty(s.T, report.Faults)
	require.NoError(s.T, report.Against(s.ctx, s.source.DSN))
	require.NoError(s.T, judge.Order(s.ctx, s.sink.DSN, s.slot))
	return report
}

// sampled requires that ACK and MONO held whenever they were looked at.
func (s *scene) sampled() {
	s.Helper()
	_, _, err := judge.Acked(s.ctx, s.slotAt(), s.slot, s.durable())
	require.NoError(s.T, err)
	_, breaches := s.watching.Stop()
	require.Empty(s.T, breaches)
}

// seen notes a witness that is not a line of a file.
func (s *scene) seen(format string, args ...any) {
	s.saw = append(s.saw, fmt.Sprintf(format, args...))
}
