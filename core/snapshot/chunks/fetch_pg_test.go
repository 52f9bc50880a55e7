package chunks

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// counted counts what comes from the server.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// counting is a reader that counts what comes.
func counting(t *testing.T, db *pgtest.DB, came *atomic.Int64) *Reader {
	t.Helper()
	r := reading(t, db, "postgres")
	r.Close()
	config, err := pgconn.ParseConfig(db.DSN)
	require.NoError(t, err)
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return counted{conn, came}, err
	}
	r.o.Source.Open = func(ctx context.Context) (*pgconn.PgConn, error) { return pgconn.ConnectConfig(ctx, config) }
	require.NoError(t, r.connect(t.Context()))
	return r
}

func (f *fetching) takes(n, bytes int) { f.rows, f.bytes = f.rows+n, f.bytes+n*bytes }

func TestRowsOfAFetch(t *testing.T) {
	const room = 1 << 20
	f := &fetching{}
	for _, want := range []int{1, 8, 64, 512, fetchMost} { // small rows of a table that is not known
		require.Equal(t, want, f.next(room))
		f.takes(want, 50)
	}
	f = &fetching{}
	require.Equal(t, 1, f.next(room))
	f.takes(1, 1<<20)
	require.Equal(t, 1, f.next(0), "one that may have no room")
	require.Equal(t, 1, (&fetching{mean: 5 << 20, known: true}).next(room))
	require.Equal(t, 3, (&fetching{mean: room/3 + 1, known: true}).next(room))
	require.Equal(t, fetchMost, (&fetching{mean: 50, known: true}).next(room))
}

// TestWideRows: no chunk, piece or list holds more than its bytes, or one row; and little
// comes that is thrown away, also at the first look at a table.
func TestWideRows(t *testing.T) {
	const rows, wide, limit = 40, 1 << 20, 3<<20 + 1<<19
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key, v text)", "alter table a alter v set storage external", "alter table a replica identity full",
		"insert into a select i, repeat('x', "+strconv.Itoa(wide)+") from generate_series(1, "+strconv.Itoa(rows)+") i",
		"create table mixed(id int primary key, v text)", "alter table mixed alter v set storage external",
		"insert into mixed select i, repeat('x', case when i % 10 = 0 then "+strconv.Itoa(wide)+" else 10 end) from generate_series(1, "+strconv.Itoa(rows)+") i",
		"create publication p for all tables")
	var came atomic.Int64
	r := counting(t, db, &came)
	bounded := func(read incremental.Read) {
		t.Helper()
		held := 0
		for _, row := range read.Rows {
			held += len(row.Packed())
		}
		require.True(t, held <= limit || len(read.Rows) == 1, "%d rows of %d bytes", len(read.Rows), held)
	}
	for _, table := range []string{"a", "mixed"} {
		m := published(t, r, table)
		all := 0
		var span incremental.Range
		came.Store(0)
		for first := true; ; first = false {
			before := came.Load()
			found, err := r.Do(t.Context(), incremental.Job{Kind: incremental.JobChunk, Table: m, Rows: 100, Bytes: limit, Range: span}, nil)
			require.NoError(t, err)
			bounded(found.Read)
			if first {
				require.Less(t, came.Load()-before, int64(limit+3*wide), "nothing is known of the table")
			}
			all += len(found.Read.Rows)
			if !found.Read.Cut {
				break
			}
			span.Lo = incremental.Key{string(found.Read.Rows[len(found.Read.Rows)-1].Value(0).Text)}
		}
		require.Equal(t, rows, all)
		total := map[string]int64{"a": rows, "mixed": rows / 10}[table] * wide
		require.Less(t, came.Load(), 2*total)
	}

	m := published(t, r, "a")
	var keys []incremental.Key
	for i := range rows {
		keys = append(keys, incremental.Key{strconv.Itoa(i + 1)})
	}
	found, err := r.Do(t.Context(), incremental.Job{Kind: incremental.JobChunk, Table: m, Bytes: limit, Keys: keys}, nil)
	require.NoError(t, err)
	require.True(t, found.Read.Cut)
	require.Len(t, found.Read.Rows, 3)
	found, err = r.Do(t.Context(), incremental.Job{Kind: incremental.JobChunk, Table: m, Bytes: 1, Keys: keys[:1]}, nil)
	require.NoError(t, err)
	require.False(t, found.Read.Cut, "a list of one key is never cut")
	require.Len(t, found.Read.Rows, 1)

	pieces := 0
	found, err = r.Do(t.Context(), incremental.Job{Kind: incremental.JobCopy, Table: m, Rows: 100, Bytes: limit}, func(_ context.Context, piece Result) error {
		bounded(piece.Read)
		pieces += len(piece.Read.Rows)
		return nil
	})
	require.NoError(t, err)
	bounded(found.Read)
	require.Equal(t, rows, pieces+len(found.Read.Rows))
}
