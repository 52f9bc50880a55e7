package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// ledgerVariable makes this test binary the ledger sink.
const ledgerVariable = "REPLICANT_TEST_LEDGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(ledgerVariable); path != "" {
		if err := runLedgerSink(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

// number reads a setting of the run.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// TestKills kills sidecar, sink and Postgres at seeded moments, two streams at once: one
// into the Python mirror, one into the ledger. After each kill the shop closes, both
// drain, the mirror must equal the source row by row, and the ledger must hold each
// transaction once and exactly the ids of the source's own ledger table.
//
// REPLICANT_KILLS is how many (make kills: 200), REPLICANT_SEED repeats a run.
func TestKills(t *testing.T) {
	kills, seed := number(t, "REPLICANT_KILLS", 12), number(t, "REPLICANT_SEED", rand.Uint64())
	major := int(number(t, "REPLICANT_KILLS_PG", 17))
	t.Logf("REPLICANT_SEED=%d REPLICANT_KILLS=%d, PostgreSQL %d", seed, kills, major)
	s := newSiege(t, major, seed)
	count := map[string]int{}
	for n := range kills {
		who := s.strike(t)
		count[who]++
		s.judge(t, n)
	}
	t.Logf("%d kills landed: %v; %d transactions in the ledger, each once; mirror equal after each", kills, count, len(s.seen))
}

// siege is one source, two streams and a dice.
type siege struct {
	dice    *rand.Rand // of the kills
	pen     *rand.Rand // of the writer, which is a goroutine of its own
	pg      *pgembed.Server
	dir     string
	mirror  *stage
	ledger  *stage
	options Options
	dsn     string
	written int
	seen    map[uint64]bool // commit LSNs in the ledger
}

func newSiege(t *testing.T, major int, seed uint64) *siege {
	t.Helper()
	ctx := t.Context()
	pg := pgtest.Own(t, major, pgembed.Options{Durable: true})
	dir := t.TempDir()
	run, read, err := pythonSink(dir)
	require.NoError(t, err, "the Python sink's environment: make python")
	s := &siege{dice: rand.New(rand.NewPCG(seed, 1)), pen: rand.New(rand.NewPCG(seed, 2)), pg: pg.Server, dir: dir, dsn: pg.DSN("postgres")}
	conn := s.connect(t)
	_, err = conn.Exec(ctx, `create table mirrored(id int primary key, v text, big text); alter table mirrored alter big set storage external;
		create table ledger(id bigint primary key); create publication shop for all tables`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(ctx))
	sidecar := buildSidecar(t)
	s.options = Options{Sink: run, ReadSink: read, Sidecar: sidecar, Out: io.Discard}
	s.mirror, err = newStage(s.options, shortDir(t), s.dsn)
	require.NoError(t, err)
	s.mirror.sink.env = append(s.mirror.sink.env, "REPLICANT_SINK_DB="+filepath.Join(dir, sinkFile))
	ledgerOptions := s.options
	ledgerOptions.Sink = []string{os.Args[0]}
	s.ledger, err = newStage(ledgerOptions, shortDir(t), s.dsn)
	require.NoError(t, err)
	s.ledger.sink.env = append(s.ledger.sink.env, ledgerVariable+"="+filepath.Join(dir, "ledger"))
	s.ledger.sidecar.args = append(s.ledger.sidecar.args, "--slot", "ledger")
	for _, one := range []*stage{s.mirror, s.ledger} {
		t.Cleanup(one.close)
		require.NoError(t, one.start(ctx))
	}
	return s
}

// buildSidecar compiles the program under test once, as it is released.
func buildSidecar(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "replicant-sidecar")
	out, err := goBuild(t.Context(), path)
	require.NoError(t, err, out)
	return path
}

// shortDir is a folder whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs-k-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *siege) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.dsn)
	require.NoError(t, err)
	return conn
}

// strike writes, kills somebody at a random moment and reports whom.
func (s *siege) strike(t *testing.T) string {
	t.Helper()
	writing, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.write(writing) }()
	time.Sleep(time.Duration(20+s.dice.IntN(280)) * time.Millisecond)
	who := s.kill(t)
	time.Sleep(time.Duration(20+s.dice.IntN(180)) * time.Millisecond)
	stop()
	<-done
	return who
}

func (s *siege) kill(t *testing.T) string {
	t.Helper()
	switch roll := s.dice.IntN(10); {
	case roll < 2:
		require.NoError(t, s.pg.Kill())
		require.NoError(t, s.pg.Restart(t.Context()))
		return "postgres"
	case roll < 6:
		return s.killOne(t, "sidecar", s.mirror.sidecar, s.ledger.sidecar)
	}
	return s.killOne(t, "sink", s.mirror.sink, s.ledger.sink)
}

func (s *siege) killOne(t *testing.T, name string, actors ...*actor) string {
	t.Helper()
	victim := actors[s.dice.IntN(len(actors))]
	require.Eventually(t, func() bool {
		_, landed := victim.kill()
		return landed
	}, 20*time.Second, 10*time.Millisecond, "no kill of the %s landed", name)
	return name
}

// write commits transactions until ctx ends; what fails with a killed server is retried
// on a new connection. A commit whose answer is lost may be there or not: the source
// itself says so later.
func (s *siege) write(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := pgx.Connect(context.Background(), s.dsn)
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		for ctx.Err() == nil && err == nil {
			err = s.writeOne(conn)
		}
		_ = conn.Close(context.Background())
	}
}

func (s *siege) writeOne(conn *pgx.Conn) error {
	s.written++
	id := s.pen.IntN(300)
	statement := fmt.Sprintf("insert into mirrored values (%d, 'v%d', repeat('x', %d)) on conflict (id) do update set v = excluded.v", id, s.written, s.pen.IntN(2)*3000)
	switch s.pen.IntN(10) {
	case 0:
		statement = fmt.Sprintf("delete from mirrored where id = %d", id)
	case 1:
		statement = fmt.Sprintf("update mirrored set id = id + 1000 * %d where id = %d", s.written, id)
	case 2:
		statement = fmt.Sprintf("insert into mirrored select %d + i, 'many', null from generate_series(1, 50) i", 1_000_000+100*s.written)
	}
	_, err := conn.Exec(context.Background(), fmt.Sprintf("begin; insert into ledger values (%d); %s; commit", s.written, statement))
	return err
}

// judge waits for both streams to drain and compares.
func (s *siege) judge(t *testing.T, n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := s.connect(t)
	defer conn.Close(ctx)
	s.written++
	var text string
	require.NoError(t, conn.QueryRow(ctx, "insert into ledger values ($1) returning pg_current_wal_insert_lsn()::text", s.written).Scan(&text))
	inside, err := core.ParseLSN(text) // the last transaction begins before and ends behind it
	require.NoError(t, err)
	for _, one := range []*stage{s.mirror, s.ledger} {
		_, err := one.drained(ctx, inside)
		require.NoError(t, err, "kill %d\n%s", n, one.sidecar.lastLines())
	}
	s.judgeMirror(t, ctx, n)
	s.judgeLedger(t, ctx, conn, n)
}

func (s *siege) judgeMirror(t *testing.T, ctx context.Context, n uint64) {
	t.Helper()
	source, err := readTables(ctx, s.pg, s.dsn, []string{"mirrored", "ledger"})
	require.NoError(t, err)
	sink, err := readSink(ctx, s.options.ReadSink)
	require.NoError(t, err)
	for name := range source {
		require.Empty(t, difference(source[name], sink[name]), "kill %d, table %s", n, name)
	}
}

func (s *siege) judgeLedger(t *testing.T, ctx context.Context, conn *pgx.Conn, n uint64) {
	t.Helper()
	records, _, err := readLedger(filepath.Join(s.dir, "ledger"))
	require.NoError(t, err)
	s.seen = map[uint64]bool{}
	inLedger := map[string]bool{}
	last := uint64(0)
	for _, r := range records {
		for _, e := range r.Entries {
			require.False(t, s.seen[e.Commit], "kill %d: transaction at %s took effect twice", n, core.LSN(e.Commit))
			require.Greater(t, e.End, last, "kill %d: order", n)
			s.seen[e.Commit], last = true, e.End
			for _, id := range e.Rows {
				require.False(t, inLedger[id], "kill %d: ledger row twice", n)
				inLedger[id] = true
			}
		}
	}
	rows, err := conn.Query(ctx, "select id::text from ledger")
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, id := range ids {
		require.True(t, inLedger[id], "kill %d: transaction %s is lost", n, id)
	}
	require.Len(t, inLedger, len(ids), "kill %d", n)
}
