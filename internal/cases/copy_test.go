package cases_test

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// copied reads every published table as the two kinds of snapshot do, by COPY and by a
// SELECT of a chunk, under a road's role, and holds both against the source, whose lines
// the stream was held against already. It returns the number of rows.
func (r *road) copied() (rows int) {
	r.Helper()
	if r.role != "postgres" {
		for _, t := range r.published() {
			r.sql("grant usage on schema "+quoted(t.schema)+" to "+r.role, "grant select on "+quoted(t.schema)+"."+quoted(t.name)+" to "+r.role)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := wal.OpenPlain(ctx, wal.Options{DSN: r.dsn(r.role), Slot: r.slot, Publications: r.publications})
	require.NoError(r, err)
	defer conn.Close(context.WithoutCancel(ctx))
	tables, err := snapshot.Tables(ctx, conn, r.publications)
	require.NoError(r, err)
	require.Len(r, tables, len(r.published()))
	for _, t := range tables {
		want := r.source(t)
		for how, got := range map[string][]string{"copy": r.byCopy(ctx, conn, t), "chunk": r.byChunk(ctx, conn, t)} {
			require.Empty(r, differences(got, want), "%s by %s and at the source", t, how)
		}
		if t.Relation.Name != "mark" {
			rows += len(want)
		}
	}
	return rows
}

// source is the table as Postgres prints it to the watcher.
func (r *road) source(t *snapshot.Table) []string {
	r.Helper()
	var out []string
	for _, values := range r.watch.ask(t.Select("")).rows {
		out = append(out, r.copyLine(t, values))
	}
	slices.Sort(out)
	return out
}

func (r *road) copyLine(t *snapshot.Table, values []*string) string {
	r.Helper()
	require.Len(r, values, len(t.Relation.Columns))
	now := row{}
	for i, v := range values {
		now[t.Relation.Columns[i].Name] = v
	}
	return now.String()
}

// byCopy reads by ranges of a few pages, in batches of a few rows.
func (r *road) byCopy(ctx context.Context, conn *pgconn.PgConn, t *snapshot.Table) []string {
	r.Helper()
	var out []string
	for _, part := range t.Parts(2) {
		batches := snapshot.Batches{Part: part, Preferred: 1 << 10, Limit: core.ReceiveBytesMax}
		require.NoError(r, batches.Read(ctx, conn, func(b *snapshot.Batch) error {
			for _, tuple := range b.Rows {
				values := make([]*string, 0, tuple.Len())
				for _, v := range tuple.Values() {
					values = append(values, textOf(v))
				}
				out = append(out, r.copyLine(t, values))
			}
			return nil
		}))
	}
	slices.Sort(out)
	return out
}

func textOf(v core.Value) *string {
	if v.Kind != core.ValueText {
		return nil
	}
	text := string(v.Text)
	return &text
}

// byChunk reads in the order of the key, each chunk from the key of the one before.
func (r *road) byChunk(ctx context.Context, conn *pgconn.PgConn, t *snapshot.Table) []string {
	r.Helper()
	const limit = " LIMIT 3"
	key := make([]string, len(t.Key))
	for i, at := range t.Key {
		key[i] = snapshot.QuoteIdentifier(t.Relation.Columns[at].Name)
	}
	list := strings.Join(key, ", ")
	if len(key) == 0 {
		rows, _ := r.chunk(ctx, conn, t, t.Select(""))
		slices.Sort(rows)
		return rows
	}
	var out []string
	statement := t.Select(" ORDER BY " + list + limit)
	for {
		rows, last := r.chunk(ctx, conn, t, statement)
		if len(rows) == 0 {
			slices.Sort(out)
			return out
		}
		out = append(out, rows...)
		bounds := make([]string, len(t.Key))
		for i, at := range t.Key {
			bounds[i] = literal(string(last[at]))
		}
		statement = t.Select(" ORDER BY "+list+limit, "("+list+") > ("+strings.Join(bounds, ", ")+")")
	}
}

// chunk runs one SELECT by the extended protocol, in text, and returns the last row as it
// came.
func (r *road) chunk(ctx context.Context, conn *pgconn.PgConn, t *snapshot.Table, statement string) (out []string, last [][]byte) {
	r.Helper()
	reader := conn.ExecParams(ctx, statement, nil, nil, nil, nil)
	for reader.NextRow() {
		var values []*string
		last = last[:0]
		for _, v := range reader.Values() {
			last = append(last, slices.Clone(v))
			values = append(values, nil)
			if v != nil {
				text := string(v)
				values[len(values)-1] = &text
			}
		}
		out = append(out, r.copyLine(t, values))
	}
	_, err := reader.Close()
	require.NoError(r, err, shorten(statement))
	return out, last
}
