package cases_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// patience bounds every wait for a fact. It is far above what a slow machine needs.
const patience = 90 * time.Second

// scene is one case on one major: a database, an application in it, and roads from it.
type scene struct {
	*testing.T
	major int
	db    *pgtest.DB
	app   *session // the application
	roads []*road
	marks int
}

// each runs a case on every major, several at a time.
func each(t *testing.T, f func(s *scene)) {
	t.Helper()
	t.Parallel()
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		f(newScene(t, pg))
	})
}

// eachFrom is each for what older majors do not have.
func eachFrom(t *testing.T, first int, f func(s *scene)) {
	t.Helper()
	t.Parallel()
	majors, err := pgtest.Majors()
	require.NoError(t, err)
	for _, major := range majors {
		if major < first {
			continue
		}
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			f(newScene(t, pgtest.Shared(t, major)))
		})
	}
}

// eachAlone is each for a case that must have the server to itself: no other case's WAL
// may come between its own.
func eachAlone(t *testing.T, f func(s *scene)) {
	t.Helper()
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) { f(newScene(t, pg)) })
}

// eachSpare runs a case on every major from one on, on the server that may be bent.
func eachSpare(t *testing.T, from int, f func(s *scene)) {
	t.Helper()
	t.Parallel()
	majors, err := pgtest.Majors()
	require.NoError(t, err)
	for _, major := range majors {
		if major < from {
			continue
		}
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			f(newScene(t, pgtest.Spare(t, major)))
		})
	}
}

func newScene(t *testing.T, pg *pgtest.Server) *scene {
	s := &scene{T: t, major: pg.Major, db: pg.Database(t)}
	s.app = s.session("postgres", pinned)
	s.sql("create table mark(n int primary key)", "create publication p for all tables")
	return s
}

// sql runs statements of the application, each in its own transaction unless begin is
// among them.
func (s *scene) sql(statements ...string) {
	s.Helper()
	s.app.sql(statements...)
}

// eventually waits for a fact at the server.
func (s *scene) eventually(what string, fact func() bool) {
	s.Helper()
	require.Eventually(s, fact, patience, 5*time.Millisecond, what)
}

// released waits until nobody reads from the slot: a walsender lives on for a moment.
func (r *road) released() {
	r.Helper()
	r.eventually("the slot is released", func() bool {
		return r.app.one("select count(*) from pg_replication_slots where active and slot_name="+literal(r.slot)) == "0"
	})
}

// mark writes a transaction and waits until every road has delivered it, and with it
// all that was committed before.
func (s *scene) mark() {
	s.Helper()
	s.marks++
	s.sql(fmt.Sprintf("insert into mark values(%d)", s.marks))
	for _, r := range s.roads {
		r.until("the mark is delivered", func() bool {
			list := r.sink.Transactions()
			for i := len(list) - 1; i >= 0; i-- {
				if n, ok := markOf(&list[i].Transaction); ok {
					return n == s.marks
				}
			}
			return false
		})
	}
}

// markOf is the number of a mark's transaction.
func markOf(tx *core.Transaction) (n int, ok bool) {
	if len(tx.Changes) != 1 {
		return 0, false
	}
	c := &tx.Changes[0]
	if c.Op != core.OpInsert || c.Relation.Name != "mark" || c.Relation.Schema != "public" {
		return 0, false
	}
	_, err := fmt.Sscan(string(c.New.Value(0).Text), &n)
	return n, err == nil
}

// done waits for everything, ends the roads in order, and holds each against the source.
func (s *scene) done() {
	s.Helper()
	s.mark()
	for _, r := range s.roads {
		r.drain()
		r.audit()
	}
}

// set changes a setting of a spare server; one that a reload does not change needs a
// restart, after which there is a new session.
func (s *scene) set(name, value string) {
	s.Helper()
	s.sql("alter system set "+name+" = "+literal(value), "select pg_reload_conf()")
}

func (s *scene) restart() {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(s, s.db.Server.Restart(ctx))
	s.again()
}

// again gives the application and the watchers new sessions.
func (s *scene) again() {
	s.Helper()
	s.app = s.session("postgres", pinned)
	for _, r := range s.roads {
		r.watch.replace(s.session("postgres", pinned))
	}
}

// session is a connection that speaks the simple protocol, so that every value comes as
// the text that Postgres prints.
type session struct {
	s    *scene
	conn *pgconn.PgConn
	mu   sync.Mutex
}

// pinned is how this project has values printed; written here again, apart from the
// code under test.
var pinned = map[string]string{
	"client_encoding": "UTF8", "datestyle": "ISO, MDY", "timezone": "UTC", "intervalstyle": "postgres",
	"extra_float_digits": "1", "bytea_output": "hex", "lc_monetary": "C",
}

// session connects as a role of the server, with settings on top.
func (s *scene) session(role string, settings map[string]string) *session {
	s.Helper()
	config, err := pgconn.ParseConfig(s.dsn(role))
	require.NoError(s, err)
	for name, value := range settings {
		config.RuntimeParams[name] = value
	}
	conn, err := pgconn.ConnectConfig(s.Context(), config)
	require.NoError(s, err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return &session{s: s, conn: conn}
}

func (s *scene) dsn(role string) string {
	u, err := url.Parse(s.db.DSN)
	require.NoError(s, err)
	u.User = url.User(role)
	return u.String()
}

func (c *session) replace(by *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = by.conn
}

func (c *session) sql(statements ...string) {
	c.s.Helper()
	for _, statement := range statements {
		_, err := c.try(statement)
		require.NoError(c.s, err, "Postgres %d: %s", c.s.major, shorten(statement))
	}
}

// table is an answer: names of columns, and rows in which nil is NULL.
type table struct {
	columns []string
	rows    [][]*string
}

// try runs one statement and returns its last answer.
func (c *session) try(statement string) (table, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results, err := c.conn.Exec(ctx, statement).ReadAll()
	if err != nil || len(results) == 0 {
		return table{}, err
	}
	last := results[len(results)-1]
	var t table
	for _, f := range last.FieldDescriptions {
		t.columns = append(t.columns, f.Name)
	}
	for _, values := range last.Rows {
		row := make([]*string, len(values))
		for i, v := range values {
			if v != nil {
				text := string(v)
				row[i] = &text
			}
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

// ask runs a query.
func (c *session) ask(query string) table {
	c.s.Helper()
	t, err := c.try(query)
	require.NoError(c.s, err, "Postgres %d: %s", c.s.major, shorten(query))
	return t
}

// one is the only value of a query, "" for NULL.
func (c *session) one(query string) string {
	c.s.Helper()
	t := c.ask(query)
	require.Len(c.s, t.rows, 1, query)
	if t.rows[0][0] == nil {
		return ""
	}
	return *t.rows[0][0]
}

// lsn is a query's only value as a position.
func (c *session) lsn(query string) core.LSN {
	c.s.Helper()
	at, err := core.ParseLSN(c.one(query))
	require.NoError(c.s, err)
	return at
}

func shorten(text string) string { return text[:min(len(text), 300)] }

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
