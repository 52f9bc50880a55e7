package wal_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

const patience = 30 * time.Second

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// world is a database with a table, a publication and options that stream them.
type world struct {
	db      *pgtest.DB
	options wal.Options
}

func newWorld(t testing.TB, pg *pgtest.Server) world {
	t.Helper()
	db := pg.Database(t)
	db.Exec(t, `CREATE TABLE item (id int PRIMARY KEY, name text)`, `CREATE PUBLICATION pub FOR TABLE item`)
	return world{db: db, options: wal.Options{
		DSN: db.DSN, Slot: "s_" + db.Name, Publications: []string{"pub"}, ApplicationName: "wal_test",
	}}
}

func (w world) connect(t testing.TB) *wal.Conn {
	t.Helper()
	c, err := wal.Connect(bounded(t), w.options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w world) catalog(t testing.TB) *wal.Catalog {
	t.Helper()
	c, err := wal.OpenCatalog(bounded(t), w.options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// create makes the slot and returns its consistent point.
func (w world) create(t testing.TB) core.LSN {
	t.Helper()
	c := w.connect(t)
	at, err := c.CreateSlot(bounded(t))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return at
}

// stream starts at a position that is the slot's own.
func (w world) stream(t testing.TB, at core.LSN) *wal.Conn {
	t.Helper()
	c := w.connect(t)
	require.NoError(t, c.Start(bounded(t), at, at))
	return c
}

// commits reads until n commits came and returns their end LSNs and all messages.
func commits(t testing.TB, c *wal.Conn, n int) (ends []core.LSN, messages [][]byte) {
	t.Helper()
	ctx := bounded(t)
	var b wal.Batch
	for len(ends) < n {
		require.NoError(t, c.Read(ctx, &b))
		require.NotEmpty(t, b.Frames)
		for _, f := range b.Frames {
			if f.Keepalive {
				continue
			}
			messages = append(messages, append([]byte(nil), f.Data...))
			if f.Data[0] == 'C' {
				end := core.LSN(binary.BigEndian.Uint64(f.Data[10:]))
				require.Equal(t, end, f.Start, "the frame of a commit carries the end LSN")
				ends = append(ends, end)
			}
		}
	}
	return ends, messages
}

func TestConnectCreateStreamConfirm(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		c := w.connect(t)
		id, err := c.Identify(bounded(t))
		require.NoError(t, err)
		require.Equal(t, w.db.Name, id.Database)
		require.NotEmpty(t, id.SystemID)
		require.EqualValues(t, 1, id.Timeline)
		require.NotZero(t, id.XLogPos)
		at, err := c.CreateSlot(bounded(t))
		require.NoError(t, err)

		catalog := w.catalog(t)
		state, err := catalog.Slot(bounded(t), w.options.Slot)
		require.NoError(t, err)
		require.True(t, state.Present)
		require.Nil(t, state.Obstacle())
		require.Equal(t, at, state.ConfirmedFlush)

		require.NoError(t, c.Start(bounded(t), at, state.ConfirmedFlush))
		for i := range 3 {
			w.db.Exec(t, fmt.Sprintf(`INSERT INTO item VALUES (%d, 'n')`, i))
		}
		ends, messages := commits(t, c, 3)
		require.Len(t, messages, 3*3+1) // Begin, Insert, Commit, and one Relation
		c.Confirm(ends[1])
		require.NoError(t, c.Flush(bounded(t)))
		require.Eventually(t, func() bool {
			state, err = catalog.Slot(bounded(t), w.options.Slot)
			return err == nil && state.ConfirmedFlush == ends[1]
		}, patience, 10*time.Millisecond)
		require.True(t, state.Active)
		require.Equal(t, c.PID(), state.ActivePID)
		require.Equal(t, "wal_test", state.ActiveApplication)
		require.WithinDuration(t, time.Now(), state.ActiveSince, time.Minute)

		c.Confirm(ends[2])
		require.NoError(t, c.Finish(bounded(t)))
		require.NoError(t, c.Close())
		state, err = catalog.Slot(bounded(t), w.options.Slot)
		require.NoError(t, err)
		require.Equal(t, ends[2], state.ConfirmedFlush)
	})
}
