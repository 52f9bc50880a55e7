package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// pair is two pipelines over the same WAL: one is sent whole transactions, the other those
// in progress as well.
type pair struct {
	t             *testing.T
	db            *pgtest.DB
	plain, stream *running
	plainSink     *sinktest.Memory
	streamSink    *sinktest.Memory
	options       pipeline.Options // of the streaming one
	spillDir      string
}

// streamed makes the server stream what exceeds 64 kB, or on request each change by itself.
func streamed(o pipeline.Options, dir, settings string) pipeline.Options {
	o.Source.Streaming = true
	o.Source.DSN += "&options=-c%20logical_decoding_work_mem%3D64kB" + settings
	o.Spill = pipeline.Spilling{Dir: dir, Resident: 4 << 10}
	return o
}

const immediately = "%20-c%20debug_logical_replication_streaming%3Dimmediate"

func newPair(t *testing.T, db *pgtest.DB, settings string) *pair {
	p := &pair{t: t, db: db, spillDir: t.TempDir()}
	p.plainSink, p.streamSink = with(core.CapSchemaChange, core.CapMessage), with(core.CapSchemaChange, core.CapMessage)
	plain := options(db, slot(db), p.plainSink)
	plain.Source.Messages = true
	p.options = streamed(options(db, slot(db), p.streamSink), p.spillDir, settings)
	p.options.Source.Messages = true
	p.plain, p.stream = start(t, plain), start(t, p.options)
	p.plain.streaming(t)
	p.stream.streaming(t)
	return p
}

// sent waits until the server has decoded and sent all WAL that there is, so that what is
// in progress was streamed and nothing that follows was known.
func (p *pair) sent() {
	p.t.Helper()
	conn := p.db.Conn(p.t)
	var at string
	p.db.Exec(p.t, "insert into unpublished values ('flushes what is in progress')")
	require.NoError(p.t, conn.QueryRow(p.t.Context(), "select pg_current_wal_flush_lsn()::text").Scan(&at))
	require.Eventually(p.t, func() bool {
		var done bool
		err := conn.QueryRow(p.t.Context(), `select coalesce(bool_and(r.sent_lsn >= $1::pg_lsn), false) from pg_replication_slots s
			join pg_stat_replication r on r.pid = s.active_pid where s.slot_name = $2`, at, p.options.Source.Slot).Scan(&done)
		return err == nil && done
	}, patience, 2*time.Millisecond)
}

// equal waits until both sinks have a last transaction and holds the two against each
// other.
func (p *pair) equal() {
	p.t.Helper()
	p.db.Exec(p.t, "insert into last values (default)")
	done := func(l []sinktest.Transaction) bool {
		return len(l) > 0 && len(l[len(l)-1].Changes) > 0 && l[len(l)-1].Changes[0].Relation != nil && l[len(l)-1].Changes[0].Relation.Name == "last"
	}
	require.True(p.t, p.plainSink.WaitFor(patience, done))
	require.True(p.t, p.streamSink.WaitFor(patience, done), "%v", p.stream.Status().Reason)
	want, got := shown(p.plainSink.Transactions()), shown(p.streamSink.Transactions())
	require.Equal(p.t, want, got)
	require.Equal(p.t, p.plainSink.Journal(), p.streamSink.Journal())
	require.Equal(p.t, p.plainSink.Messages(), p.streamSink.Messages())
	noFiles(p.t, p.spillDir)
}

// streamed waits until the status shows so many transactions that came in progress.
func (p *pair) streamed(right func(uint64) bool) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return right(p.stream.Status().Streamed) }, patience, 2*time.Millisecond,
		"%d were streamed", p.stream.Status().Streamed)
}

func noFiles(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.True(t, d.IsDir(), path)
		return err
	}))
}

// shown is everything that a sink is told, as text, but for what the catalog was asked: it
// may not show a table yet whose commit the stream has already.
func shown(all []sinktest.Transaction) (lines []string) {
	for _, tx := range all {
		lines = append(lines, fmt.Sprintf("xid %d commit %s end %s at %s origin %q", tx.XID, tx.CommitLSN, tx.EndLSN, tx.CommitTime, tx.Origin))
		for _, c := range tx.Changes {
			line := fmt.Sprintf("  %s old=%d %x %x", c.Op, c.OldKind, c.Old.Packed(), c.New.Packed())
			if c.Relation != nil {
				r := *c.Relation
				r.Columns = slices.Clone(r.Columns)
				for i := range r.Columns {
					r.Columns[i].PrimaryKeyPosition, r.Columns[i].TypeName = 0, ""
				}
				line += fmt.Sprintf(" %+v", r)
			}
			if c.Truncate != nil {
				line += fmt.Sprintf(" %v", c.Truncate.Relations)
			}
			if c.Message != nil {
				line += fmt.Sprintf(" %+v", *c.Message)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// client is a session of the application.
type client struct {
	t    *testing.T
	conn *pgconn.PgConn
}

func (p *pair) client() *client {
	conn, err := pgconn.Connect(p.t.Context(), p.db.DSN+"&options=-c%20lock_timeout%3D20s")
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &client{p.t, conn}
}

func (c *client) do(statements ...string) {
	c.t.Helper()
	for _, s := range statements {
		_, err := c.conn.Exec(c.t.Context(), s).ReadAll()
		require.NoError(c.t, err, s)
	}
}

// big is below the size from which a row is compressed.
const big = "repeat('x', 1500)"

func tables(t *testing.T, db *pgtest.DB) {
	db.Exec(t, "create table t(id int primary key, v text)", "create table u(id int primary key, v text)",
		"create table unpublished(v text)", "create table last(id serial primary key)",
		"create publication p for table t, u, last")
}

// rows inserts so many large rows from an id on.
func rows(table string, from, n int) string {
	return fmt.Sprintf("insert into %s select i, i || %s from generate_series(%d, %d) i", table, big, from, from+n-1)
}

// stories are run statement by statement with both pipelines running.
var stories = []struct {
	name string
	run  func(p *pair, a, b, c *client)
}{
	{"X01 savepoint rolled back inside a streamed transaction", func(p *pair, a, _, _ *client) {
		a.do("begin", rows("t", 1, 300), "savepoint sp", rows("t", 1001, 300))
		p.sent()
		a.do("rollback to sp", "insert into t values (3000, 'tail')", "commit")
		a.do(`do $$ begin for i in 1..50 loop begin insert into t select 10000+i*100+j, repeat('y',200) from generate_series(1,50) j;
			if i%2=0 then raise exception 'x'; end if; exception when others then null; end; end loop; end $$`)
	}},
	{"X03 ten transactions, three rolled back", func(p *pair, a, b, _ *client) {
		for i := range 10 {
			a.do("begin", rows("t", 1+i*1000, 300))
			b.do(fmt.Sprintf("insert into u values (%d, 'between')", i))
			if i%3 == 2 {
				p.sent()
				a.do("rollback")
			} else {
				a.do("commit")
			}
		}
	}},
	{"interleaved, nested savepoints, an aborted top", func(p *pair, a, b, c *client) {
		a.do("begin", rows("t", 1, 100))
		p.sent()
		b.do("begin", rows("u", 1, 100), "savepoint s", rows("u", 200, 50), "savepoint s2", rows("u", 300, 50))
		p.sent()
		c.do("insert into t values (9999, 'small, between')", "begin", rows("t", 20000, 100))
		p.sent()
		a.do("savepoint s", rows("t", 400, 100), "savepoint s2", "update t set v = 'u' where id = 1", "delete from t where id = 2")
		p.sent()
		a.do("rollback to s", rows("t", 600, 50))
		b.do("release s2", "rollback to s", rows("u", 400, 50), "savepoint s3", rows("u", 500, 50), "release s3")
		p.sent()
		c.do("rollback")
		b.do("update u set v = 'w' where id < 5", "commit")
		a.do("truncate u", "commit")
	}},
	{"DDL in streams: rolled back, in a savepoint, kept, made there", func(p *pair, a, b, _ *client) {
		a.do("insert into t values (1, 'old shape')")
		a.do("begin", rows("t", 100, 50), "alter table t drop column v", "insert into t values (2)", rows("u", 1, 50))
		p.sent()
		a.do("rollback", "insert into t values (3, 'old shape still')")
		a.do("begin", "savepoint s", "alter table t add column c int", "insert into t values (4, 'x', 4)", rows("u", 1, 50))
		p.sent()
		a.do("rollback to s", "insert into t values (5, 'x')", rows("u", 200, 50), "commit")
		a.do("begin", rows("u", 250, 50), "savepoint s", "truncate t", "insert into t values (1, 'again')", rows("u", 350, 50))
		p.sent()
		a.do("rollback to s", rows("u", 400, 40), "commit")
		b.do("begin", rows("u", 300, 50))
		p.sent()
		a.do("begin", "insert into t values (6, 'x')", "alter table t add column c int", "insert into t values (7, 'x', 7)", rows("u", 800, 50),
			"alter table t drop column v", "insert into t values (8, 8)", "alter table t rename column c to d", "insert into t values (9, 9)")
		p.sent()
		b.do("insert into u values (998, 'between')")
		a.do("commit")
		b.do("insert into t values (10, 10)", rows("u", 500, 50), "commit")
		a.do("begin", "create type mood as enum ('fine')", "create table made(a int, b mood, c int, primary key (c, a))",
			"alter publication p add table made", "insert into made values (1, 'fine', 2)", rows("u", 600, 50))
		p.sent()
		a.do("insert into made values (2, null, 3)", "commit", "insert into made values (3, 'fine', 4)")
		a.do("alter table t replica identity full", "begin", "update t set d = 0", rows("u", 700, 50), "delete from t", "commit")
	}},
	{"messages, origin, nothing published", func(p *pair, a, b, _ *client) {
		name := "o_" + p.options.Source.Slot
		p.db.Exec(p.t, fmt.Sprintf("select pg_replication_origin_create('%s')", name))
		p.t.Cleanup(func() { p.db.Exec(p.t, fmt.Sprintf("select pg_replication_origin_drop('%s')", name)) })
		a.do("begin", "select pg_logical_emit_message(true, 'p', 'first')", rows("t", 1, 50))
		p.sent()
		b.do("select pg_logical_emit_message(false, 'p', 'between the blocks')")
		a.do("select pg_logical_emit_message(false, 'p', 'of its own')", "savepoint s", "select pg_logical_emit_message(true, 'p', 'behind a savepoint')", rows("t", 100, 50))
		p.sent()
		a.do("release s", rows("t", 200, 50), "select pg_logical_emit_message(true, 'p', 'last')", "commit")
		a.do("begin", "select pg_logical_emit_message(true, 'p', 'only')", strings.Replace(rows("unpublished", 1, 100), "select i, ", "select ", 1), "commit")
		a.do(strings.Replace(rows("unpublished", 1, 100), "select i, ", "select ", 1))
		a.do(fmt.Sprintf("select pg_replication_origin_session_setup('%s')", name), "begin",
			"select pg_replication_origin_xact_setup('0/ABCDEF02', '2024-01-01 00:00:01+00')", rows("t", 300, 50), "commit",
			"select pg_replication_origin_session_reset()")
	}},
}

// A sink cannot tell whether transactions were streamed in progress: the same come, in the
// same order, with the same rows, descriptions, messages and schema changes.
func TestStreamingOnAndOffAreEqual(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		for _, story := range stories {
			t.Run(story.name, func(t *testing.T) {
				db := pg.Database(t)
				tables(t, db)
				p := newPair(t, db, "")
				story.run(p, p.client(), p.client(), p.client())
				p.equal()
				p.streamed(func(n uint64) bool { return n > 0 })
				require.Zero(t, p.plain.Status().Streamed)
			})
		}
		if pg.Major < 16 {
			return
		}
		// Each change in a block of its own.
		db := pg.Database(t)
		tables(t, db)
		p := newPair(t, db, immediately)
		for i, story := range stories {
			if i == 0 || i == 2 || i == 3 {
				db.Exec(t, "truncate t, u")
				story.run(p, p.client(), p.client(), p.client())
			}
		}
		p.equal()
		p.streamed(func(n uint64) bool { return n > 10 })
	})
}

// A logical message behind a savepoint that is rolled back cannot be told from others while
// it is streamed: the same WAL is read again without streaming, from where the sink stands.
func TestMessageInARolledBackSavepoint(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		tables(t, db)
		p := newPair(t, db, "")
		a := p.client()
		a.do(rows("t", 1000, 50), "begin", "select pg_logical_emit_message(true, 'p', 'kept')", rows("t", 1, 50),
			"savepoint s", "select pg_logical_emit_message(true, 'p', 'lost')", rows("t", 100, 50))
		p.sent()
		a.do("rollback to s", "select pg_logical_emit_message(true, 'p', 'kept too')", rows("t", 200, 50), "commit", rows("t", 2000, 50))
		p.equal()
		require.EqualValues(t, 2, p.stream.Status().Sessions)
		p.streamed(func(n uint64) bool { return n == 1 }) // the one before it
		for _, tx := range p.streamSink.Transactions() {
			for _, c := range tx.Changes {
				require.False(t, c.Message != nil && string(c.Message.Content) == "lost")
			}
		}
	})
}
