package fidelity_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/fidelity"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

const patience = 2 * time.Minute

// hostile are settings of the role under which the sidecar reads. Each would print values
// in another way than the pinned one.
var hostile = map[string]string{
	"DateStyle": "SQL, DMY", "IntervalStyle": "iso_8601", "extra_float_digits": "-15", "bytea_output": "escape",
	"TimeZone": "Asia/Kathmandu", "client_encoding": "LATIN1", "quote_all_identifiers": "on", "search_path": "public",
}

// world is a database with all types, and a role of the sidecar's own in it.
type world struct {
	*testing.T
	db     *pgtest.DB
	tables []fidelity.Table
	role   string
	owner  *pgx.Conn
}

var creating sync.Mutex

func newWorld(t *testing.T, pg *pgtest.Server, settings map[string]string) *world {
	t.Helper()
	w := &world{T: t, db: pg.Database(t), tables: fidelity.Tables(pg.Major), role: "reader"}
	w.owner = w.db.Conn(t)
	w.db.Exec(t, fidelity.Setup...)
	for _, table := range w.tables {
		w.db.Exec(t, table.Create())
	}
	creating.Lock()
	defer creating.Unlock()
	w.db.Exec(t, `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'reader') THEN CREATE ROLE reader LOGIN REPLICATION; END IF; END $$`,
		`GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader`, `CREATE PUBLICATION p FOR ALL TABLES`)
	for name, value := range settings {
		w.db.Exec(t, fmt.Sprintf(`ALTER ROLE reader IN DATABASE "%s" SET %s = %s`, w.db.Name, name, setting(name, value)))
	}
	return w
}

// setting is a value for SET; a list is not one literal.
func setting(name, value string) string {
	if name == "DateStyle" || name == "search_path" {
		return value
	}
	return "'" + value + "'"
}

// dsn is the address for the sidecar's role.
func (w *world) dsn() string {
	u, err := url.Parse(w.db.DSN)
	require.NoError(w, err)
	if u.User != nil {
		u.User = url.User(w.role)
	}
	q := u.Query()
	q.Set("user", w.role)
	u.RawQuery = q.Encode()
	return u.String()
}

func (w *world) options() wal.Options {
	return wal.Options{DSN: w.dsn(), Slot: fmt.Sprintf("fidelity_%d", os.Getpid()), Publications: []string{"p"}, StatusInterval: 20 * time.Millisecond}
}

// insert writes all rows, as their owner, whose settings are the server's.
func (w *world) insert() {
	w.Helper()
	for _, table := range w.tables {
		_, err := w.owner.Exec(context.Background(), table.Insert())
		require.NoError(w, err, table.Name)
	}
}

// sidecar runs a whole one, from its copy to what do makes of the source. It returns the
// sink once that has do's last transaction, which is written into the table mark.
func (w *world) sidecar(kind checkpoint.Snapshot, do func()) *sinktest.Memory {
	w.Helper()
	store := sinktest.NewMemory()
	address := w.serve(store)
	remote, err := remotesink.New(remotesink.Options{Address: address})
	require.NoError(w, err)
	w.Cleanup(func() { _ = remote.Close() })
	source := w.options()
	source.Slot += fmt.Sprintf("_%d", kind)
	p, err := pipeline.New(pipeline.Options{
		Source: source, Sink: remote, Snapshot: kind,
		Logger: slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	require.Eventually(w, func() bool { return copied(store) }, patience, 5*time.Millisecond, "the copy does not end")
	do()
	w.db.Exec(w.T, `INSERT INTO mark DEFAULT VALUES`)
	require.True(w, store.WaitFor(patience, func(list []sinktest.Transaction) bool {
		return slices.ContainsFunc(list, func(t sinktest.Transaction) bool {
			return len(t.Changes) > 0 && t.Changes[0].Relation != nil && t.Changes[0].Relation.Name == "mark"
		})
	}), "the stream does not arrive")
	return store
}

// copied reports the end of either kind of copy.
func copied(store *sinktest.Memory) bool {
	return len(store.Completed()) == 1 ||
		slices.ContainsFunc(store.SnapshotUnits(), func(u core.SnapshotUnit) bool { return u.BackfillComplete })
}

// serve puts the wire between sidecar and sink.
func (w *world) serve(store core.Sink) (address string) {
	dir, err := os.MkdirTemp("", "fi")
	require.NoError(w, err)
	w.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- sink.ServeListener(ctx, listener, store, sink.WithGrace(2*time.Second)) }()
	w.Cleanup(func() {
		cancel()
		require.NoError(w, <-served)
	})
	return "unix:" + socket
}

// values sorts what the sink was given by table and path; copied is the path of its copy.
func values(all map[string]map[string]fidelity.Values, store *sinktest.Memory, copied string) {
	add := func(path string, r *core.Relation, row core.Tuple) {
		if all[r.Name] == nil {
			all[r.Name] = map[string]fidelity.Values{}
		}
		if all[r.Name][path] == nil {
			all[r.Name][path] = fidelity.Values{}
		}
		all[r.Name][path].Add(r, row)
	}
	for _, u := range store.SnapshotUnits() {
		for _, row := range u.Rows {
			add(copied, u.Relation, row)
		}
	}
	for _, t := range store.Transactions() {
		for i := range t.Changes {
			c := &t.Changes[i]
			switch c.Op {
			case core.OpInsert:
				add(fidelity.PathInsert, c.Relation, c.New)
			case core.OpUpdate:
				add(fidelity.PathUpdate, c.Relation, c.New)
				add(fidelity.PathUpdateOld, c.Relation, c.Old)
			case core.OpDelete:
				add(fidelity.PathDelete, c.Relation, c.Old)
			}
		}
	}
}

// chunks reads all tables by SELECT.
func (w *world) chunks(conn *pgconn.PgConn) map[string]fidelity.Values {
	w.Helper()
	all, err := w.tryChunks(conn)
	require.NoError(w, err)
	return all
}

// tryChunks does so under whatever connection is given; the server may be unable to print
// a value there.
func (w *world) tryChunks(conn *pgconn.PgConn) (map[string]fidelity.Values, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tables, err := snapshot.Tables(ctx, conn, []string{"p"})
	if err != nil {
		return nil, err
	}
	all := map[string]fidelity.Values{}
	for _, table := range tables {
		if table.Relation.Name[0] != 't' {
			continue // the mark, and a table that is there for its row type
		}
		if all[table.Relation.Name], err = chunk(ctx, conn, table); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func chunk(ctx context.Context, conn *pgconn.PgConn, table *snapshot.Table) (fidelity.Values, error) {
	rows := fidelity.Values{}
	reader := conn.ExecParams(ctx, "SELECT "+table.Columns()+" FROM "+table.From()+table.Where(`"id" > $1::int`)+` ORDER BY "id"`, [][]byte{[]byte("-1")}, nil, nil, nil)
	for reader.NextRow() {
		var cells []core.Value
		for _, v := range reader.Values() {
			if v == nil {
				cells = append(cells, core.Null())
			} else {
				cells = append(cells, core.Value{Kind: core.ValueText, Text: slices.Clone(v)})
			}
		}
		rows.Add(&table.Relation, core.PackTuple(cells...))
	}
	_, err := reader.Close()
	return rows, err
}

// connect opens a connection of that role with these settings and no others.
func (w *world) connect(dsn string, settings map[string]string) *pgconn.PgConn {
	w.Helper()
	config, err := pgconn.ParseConfig(dsn)
	require.NoError(w, err)
	maps.Copy(config.RuntimeParams, settings)
	conn, err := pgconn.ConnectConfig(context.Background(), config)
	require.NoError(w, err)
	w.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// reference are the settings under which values are what they should be: the test's own
// list, and not the one it proves.
var reference = map[string]string{
	"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "TimeZone": "UTC", "extra_float_digits": "1",
	"bytea_output": "hex", "lc_monetary": "C", "search_path": "pg_catalog", "quote_all_identifiers": "off",
}
