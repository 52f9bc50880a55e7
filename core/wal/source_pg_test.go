package wal_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// as is the DSN with another user.
func as(t testing.TB, dsn, user string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.User(user)
	return u.String()
}

func TestBusySlotNamesItsHolder(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		from := w.create(t)
		owner := w.stream(t, from)
		other := w.connect(t)
		err := other.Start(bounded(t), from, from)
		require.ErrorIs(t, err, wal.ErrSlotBusy)
		var holder *wal.SlotBusyError
		require.ErrorAs(t, err, &holder)
		require.Equal(t, owner.PID(), holder.PID)
		require.Equal(t, "wal_test", holder.Application)
		require.NoError(t, owner.Close())
		require.Eventually(t, func() bool {
			err = other.Start(bounded(t), from, from)
			return err == nil
		}, patience, 20*time.Millisecond)
	})
}

func TestSlotsThatAreNotOurs(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w, elsewhere := newWorld(t, pg), newWorld(t, pg)
		for name, c := range map[string]struct {
			make string
			in   world
			want core.HaltCode
		}{
			"plugin":   {`SELECT pg_create_logical_replication_slot('%s', 'test_decoding')`, w, core.HaltSlotPlugin},
			"physical": {`SELECT pg_create_physical_replication_slot('%s', true)`, w, core.HaltSlotPlugin},
			"database": {`SELECT pg_create_logical_replication_slot('%s', 'pgoutput')`, elsewhere, core.HaltSlotDatabase},
		} {
			w := w
			w.options.Slot = name + "_" + w.db.Name
			c.in.db.Exec(t, fmt.Sprintf(c.make, w.options.Slot))
			haltOf(t, w.connect(t).Start(bounded(t), 1, 1), c.want)
			state, err := w.catalog(t).Slot(bounded(t), w.options.Slot)
			require.NoError(t, err)
			require.NotNil(t, state.Obstacle())
			require.Equal(t, c.want, state.Obstacle().Code)
			if name == "physical" { // belongs to no database, so nobody else drops it
				w.db.Exec(t, fmt.Sprintf(`SELECT pg_drop_replication_slot('%s')`, w.options.Slot))
			}
		}
		w.options.Slot = "absent_" + w.db.Name
		haltOf(t, w.connect(t).Start(bounded(t), 1, 1), core.HaltSlotMissing)
		state, err := w.catalog(t).Slot(bounded(t), w.options.Slot)
		require.NoError(t, err)
		require.False(t, state.Present)
		require.Nil(t, state.Obstacle())
	})
}

func TestSlotOfTwoPhase(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		w.db.Exec(t, fmt.Sprintf(`SELECT pg_create_logical_replication_slot('%s', 'pgoutput', false, true)`, w.options.Slot))
		state, err := w.catalog(t).Slot(bounded(t), w.options.Slot)
		require.NoError(t, err)
		require.True(t, state.TwoPhase)
		require.Equal(t, core.HaltSlotTwoPhase, state.Obstacle().Code)
	})
}

func TestTemporarySlotEndsWithItsConnection(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		w.options.Temporary = true
		c := w.connect(t)
		from, err := c.CreateSlot(bounded(t))
		require.NoError(t, err)
		catalog := w.catalog(t)
		state, err := catalog.Slot(bounded(t), w.options.Slot)
		require.NoError(t, err)
		require.True(t, state.Temporary)
		require.NoError(t, c.Start(bounded(t), from, from))
		w.db.Exec(t, `INSERT INTO item VALUES (1, 'n')`)
		commits(t, c, 1)
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool {
			state, err = catalog.Slot(bounded(t), w.options.Slot)
			return err == nil && !state.Present
		}, patience, 10*time.Millisecond)
	})
}

// 14 to 17 fail at the first row, 18 says a word in a notice and streams the rest.
func TestMissingPublicationHalts(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		w.options.Publications = []string{"pub", `o'ther "one"`}
		missing, err := w.catalog(t).MissingPublications(bounded(t), w.options.Publications)
		require.NoError(t, err)
		require.Equal(t, w.options.Publications[1:], missing)
		from := w.create(t)
		c := w.stream(t, from)
		w.db.Exec(t, `INSERT INTO item VALUES (1, 'n')`)
		var b wal.Batch
		for err = error(nil); err == nil; err = c.Read(bounded(t), &b) {
			for _, f := range b.Frames {
				require.False(t, !f.Keepalive && f.Data[0] == 'I', "a row came through")
			}
		}
		haltOf(t, err, core.HaltPublicationMissing)
	})
}

func TestOddPublicationNamesAndMessages(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		w.options.Publications = []string{`o'ther "one", \x`, "pub"}
		w.options.Messages = true
		w.db.Exec(t, `CREATE PUBLICATION "o'ther ""one"", \x" FOR TABLE item`)
		missing, err := w.catalog(t).MissingPublications(bounded(t), w.options.Publications)
		require.NoError(t, err)
		require.Empty(t, missing)
		c := w.stream(t, w.create(t))
		w.db.Exec(t, `SELECT pg_logical_emit_message(true, 'a', 'b')`, `INSERT INTO item VALUES (1, 'n')`)
		_, messages := commits(t, c, 2)
		kinds := ""
		for _, m := range messages {
			kinds += string(m[0])
		}
		require.Equal(t, "BMCBRIC", kinds)
	})
}

func TestRoleWithoutReplication(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, pg)
		role := "plain_" + w.db.Name
		w.db.Exec(t, `CREATE ROLE "`+role+`" LOGIN`)
		t.Cleanup(func() { w.db.Exec(t, `DROP ROLE "`+role+`"`) })
		w.options.DSN = as(t, w.db.DSN, role)
		_, err := wal.Connect(bounded(t), w.options)
		haltOf(t, err, core.HaltSourceRights)
		// The ordinary connection works and shows slots to anybody.
		_, err = w.catalog(t).Slot(bounded(t), w.options.Slot)
		require.NoError(t, err)

		w.options.DSN = as(t, w.db.DSN, "nobody_there")
		_, err = wal.Connect(bounded(t), w.options)
		haltOf(t, err, core.HaltSourceRights)
		w.options.DSN = pg.DSN("no_such_database")
		_, err = wal.Connect(bounded(t), w.options)
		haltOf(t, err, core.HaltSourceRefused)
	})
}

func TestValueOf60MiB(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		w := newWorld(t, pg)
		w.db.Exec(t, `CREATE TABLE blob (id int PRIMARY KEY, b bytea)`, `ALTER TABLE blob ALTER b SET STORAGE EXTERNAL`,
			`ALTER PUBLICATION pub ADD TABLE blob`)
		c := w.stream(t, w.create(t))
		w.db.Exec(t, `INSERT INTO blob SELECT 1, decode(repeat('61', 30 << 20), 'hex')`)
		_, messages := commits(t, c, 1)
		row := messages[len(messages)-2]
		require.Equal(t, "I", string(row[0]))
		const size = 60<<20 + 2
		require.Greater(t, len(row), size)
		text := string(row[len(row)-size:])
		require.Equal(t, `\x`, text[:2])
		require.Equal(t, size/2-1, strings.Count(text, "61"))
	})
}
