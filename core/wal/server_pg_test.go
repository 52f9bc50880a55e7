package wal_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// Tests that bend a server to their will share one a major, one after the other.
func TestServerOfItsOwn(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, shared *pgtest.Server) {
		t.Parallel()
		pg := pgtest.Own(t, shared.Major, pgembed.Options{TCP: true})
		t.Run("authentication", func(t *testing.T) { authentication(t, pg) })
		t.Run("hostile settings", func(t *testing.T) { hostileSettings(t, pg) })
		t.Run("server dies", func(t *testing.T) { serverDies(t, pg) })
		t.Run("fast shutdown", func(t *testing.T) { fastShutdown(t, pg) })
		t.Run("in recovery", func(t *testing.T) { inRecovery(t, pg) })
	})
}

func TestScarceServer(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, shared *pgtest.Server) {
		t.Parallel()
		pg := pgtest.Own(t, shared.Major, pgembed.Options{Settings: map[string]string{
			"max_wal_senders": "2", "max_replication_slots": "1", "wal_level": "",
			"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB",
		}})
		t.Run("wal_level replica", func(t *testing.T) { walLevelReplica(t, pg) })
		newWorld(t, pg).db.Exec(t, `ALTER SYSTEM SET wal_level = 'logical'`)
		require.NoError(t, pg.Restart(bounded(t)))
		t.Run("exhausted", func(t *testing.T) { exhaustedServer(t, pg) })
		t.Run("invalidated slot", func(t *testing.T) { invalidatedSlot(t, pg) })
	})
}

// A role, a database and a reload that all say otherwise change no byte.
func hostileSettings(t *testing.T, pg *pgtest.Server) {
	const values = `INSERT INTO odd VALUES (%d, 0.1::float8 + 0.2::float8, '2024-02-29 12:34:56+00', '1 year 2 mons 3 days 04:05:06',
 '\x0041', 'public.odd', 'gr' || chr(252) || 'n')`
	hostile := map[string]string{
		"datestyle": "German", "timezone": "Asia/Tokyo", "intervalstyle": "iso_8601", "extra_float_digits": "-3",
		"bytea_output": "escape", "search_path": "public", "quote_all_identifiers": "on",
	}
	deadly := map[string]string{
		"statement_timeout": "1", "lock_timeout": "1", "idle_session_timeout": "1",
		"standard_conforming_strings": "off", "client_encoding": "LATIN1",
	}
	if pg.Major >= 17 {
		deadly["transaction_timeout"] = "2s" // set after connecting, so not before that long
	}
	w := newWorld(t, pg)
	w.db.Exec(t, `CREATE TABLE odd (id int PRIMARY KEY, f float8, ts timestamptz, iv interval, b bytea, r regclass, t text)`,
		`ALTER PUBLICATION pub ADD TABLE odd`, `CREATE ROLE reader LOGIN REPLICATION`)
	w.options.DSN = as(t, w.db.DSN, "reader")
	for _, settings := range []map[string]string{hostile, deadly} {
		for name, value := range settings {
			w.db.Exec(t, fmt.Sprintf(`ALTER ROLE reader SET %s = '%s'`, name, value))
			w.options.DSN += "&" + name + "=" + url.QueryEscape(value)
		}
	}
	admin := w
	admin.options.DSN = w.db.DSN
	c := w.stream(t, admin.create(t))
	w.db.Exec(t, fmt.Sprintf(values, 1))
	_, before := commits(t, c, 1)
	for name, value := range hostile {
		w.db.Exec(t, fmt.Sprintf(`ALTER SYSTEM SET %s = '%s'`, name, value))
	}
	w.db.Exec(t, `SELECT pg_reload_conf()`)
	require.Eventually(t, func() bool {
		var shown string
		return w.db.Conn(t).QueryRow(t.Context(), `SHOW intervalstyle`).Scan(&shown) == nil && shown == "iso_8601"
	}, patience, 20*time.Millisecond)
	w.db.Exec(t, fmt.Sprintf(values, 2))
	_, after := commits(t, c, 1)
	for i, messages := range [][][]byte{before, after} {
		row := messages[len(messages)-2]
		require.Equal(t, "I", string(row[0]))
		text := string(row)
		for _, want := range []string{
			fmt.Sprint(i + 1), "0.30000000000000004", "2024-02-29 12:34:56+00", "1 year 2 mons 3 days 04:05:06", `\x0041`, "public.odd", "grün",
		} {
			require.Contains(t, text, "t"+string([]byte{0, 0, 0, byte(len(want))})+want)
		}
	}
	// The ordinary connection of that role lives under the same settings.
	catalog := w.catalog(t)
	time.Sleep(20 * time.Millisecond) // beyond the role's idle_session_timeout
	_, err := catalog.CurrentLSN(bounded(t))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	w.db.Exec(t, `ALTER SYSTEM RESET ALL`, `SELECT pg_reload_conf()`)
}

func invalidatedSlot(t *testing.T, pg *pgtest.Server) {
	w := newWorld(t, pg)
	from := w.create(t)
	catalog := w.catalog(t)
	state, err := catalog.Slot(bounded(t), w.options.Slot)
	require.NoError(t, err)
	require.NotNil(t, state.SafeWALSize)
	require.False(t, state.Invalidated())
	for range 20 {
		w.db.Exec(t, `INSERT INTO item SELECT g, 'x' FROM generate_series(1, 1000) g`, `DELETE FROM item`, `SELECT pg_switch_wal()`, `CHECKPOINT`)
		state, err = catalog.Slot(bounded(t), w.options.Slot)
		require.NoError(t, err)
		if state.Invalidated() {
			break
		}
	}
	require.Equal(t, "lost", state.WALStatus)
	require.Equal(t, pg.Major >= 17, state.InvalidationReason == "wal_removed")
	require.NotZero(t, state.ConfirmedFlush)
	require.Equal(t, core.HaltSlotInvalidated, state.Obstacle().Code)
	halt := haltOf(t, w.connect(t).Start(bounded(t), from, from), core.HaltSlotInvalidated)
	require.Contains(t, chain(halt), "55000")
}

func walLevelReplica(t *testing.T, pg *pgtest.Server) {
	w := newWorld(t, pg)
	_, err := w.connect(t).CreateSlot(bounded(t))
	haltOf(t, err, core.HaltWALLevel)
	haltOf(t, w.connect(t).Start(bounded(t), 1, 1), core.HaltWALLevel)
	server, err := w.catalog(t).Server(bounded(t))
	require.NoError(t, err)
	require.Equal(t, "replica", server.WALLevel)
	require.Equal(t, pg.Major, server.Version/10_000)
	require.False(t, server.InRecovery)
	require.Equal(t, time.Minute, server.SenderTimeout)
}

func exhaustedServer(t *testing.T, pg *pgtest.Server) {
	w := newWorld(t, pg)
	w.create(t)
	w.options.Slot += "_2"
	c := w.connect(t)
	_, err := c.CreateSlot(bounded(t))
	haltOf(t, err, core.HaltSlotsExhausted)
	w.connect(t)
	w.options.SenderTimeout = time.Second
	_, err = wal.Connect(bounded(t), w.options)
	haltOf(t, err, core.HaltSlotsExhausted)
}

// A fast shutdown waits for the reader; one that confirms what it was sent lets it go.
func fastShutdown(t *testing.T, pg *pgtest.Server) {
	w := newWorld(t, pg)
	w.db.Exec(t, `CREATE TABLE unpublished (id int)`)
	from := w.create(t)
	c := w.stream(t, from)
	w.db.Exec(t, `INSERT INTO item VALUES (1, 'n')`, `INSERT INTO unpublished SELECT generate_series(1, 1000)`)
	ends, _ := commits(t, c, 1)
	c.Confirm(ends[0])
	read := make(chan error, 1)
	ctx := bounded(t)
	go func() {
		var b wal.Batch
		for {
			if err := c.Read(ctx, &b); err != nil {
				read <- err
				return
			}
			if f := b.Frames[len(b.Frames)-1]; f.Keepalive {
				c.Confirm(f.WALEnd)
				_ = c.Flush(ctx) // fails when the server is gone already
			}
		}
	}()
	begun := time.Now()
	require.NoError(t, pg.Stop())
	require.Less(t, time.Since(begun), 5*time.Second)
	require.ErrorIs(t, <-read, wal.ErrConnectionLost)
	_, err := wal.Connect(bounded(t), w.options)
	require.ErrorIs(t, err, wal.ErrConnectionLost)
}

func serverDies(t *testing.T, pg *pgtest.Server) {
	w := newWorld(t, pg)
	catalog := w.catalog(t)
	c := w.stream(t, w.create(t))
	w.db.Exec(t, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, c.PID()))
	var b wal.Batch
	var err error
	for err == nil {
		err = c.Read(bounded(t), &b)
	}
	require.ErrorIs(t, err, wal.ErrConnectionLost)
	require.Contains(t, err.Error(), "57P01")
	require.NoError(t, pg.Kill())
	_, err = catalog.CurrentLSN(bounded(t))
	require.ErrorIs(t, err, wal.ErrConnectionLost)
	require.NoError(t, pg.Restart(context.Background()))
	require.Eventually(t, func() bool { // the catalog's connection comes back by itself
		_, err = catalog.CurrentLSN(bounded(t))
		return err == nil
	}, patience, 50*time.Millisecond)
}

// Postgres' own words about a password, a line of pg_hba.conf and TLS.
func authentication(t *testing.T, pg *pgtest.Server) {
	w := newWorld(t, pg)
	from := w.create(t)
	w.options.DSN = pg.TCPDSN(w.db.Name)
	c := w.stream(t, from)
	w.db.Exec(t, `INSERT INTO item VALUES (1, 'n')`)
	commits(t, c, 1)
	require.NoError(t, c.Close())

	wrong, err := url.Parse(w.options.DSN)
	require.NoError(t, err)
	wrong.User = url.UserPassword("postgres", secret)
	w.options.DSN = wrong.String()
	_, err = wal.Connect(bounded(t), w.options)
	halt := haltOf(t, err, core.HaltSourceRights)
	require.NotContains(t, chain(halt), secret)

	w.options.DSN = strings.Replace(pg.TCPDSN(w.db.Name), "sslmode=disable", "sslmode=require", 1)
	_, err = wal.Connect(bounded(t), w.options)
	haltOf(t, err, core.HaltSourceRefused)
	streamOverTLS(t, pg, w)

	hba := filepath.Join(pg.DataDir(), "pg_hba.conf")
	old, err := os.ReadFile(hba)
	require.NoError(t, err)
	overwrite(t, hba, append([]byte("host all nohost 127.0.0.1/32 reject\n"), old...))
	w.db.Exec(t, `SELECT pg_reload_conf()`, `CREATE ROLE nohost LOGIN REPLICATION`)
	w.options.DSN = as(t, pg.TCPDSN(w.db.Name), "nohost")
	require.Eventually(t, func() bool {
		_, err = wal.Connect(bounded(t), w.options)
		halt, ok := core.AsHalt(err)
		return ok && halt.Code == core.HaltSourceRights && strings.Contains(halt.Detail, "pg_hba.conf")
	}, patience, 20*time.Millisecond)
}

// streamOverTLS switches TLS on and reads many records and one large value.
func streamOverTLS(t *testing.T, pg *pgtest.Server, w world) {
	certificate := selfSigned(t).Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	require.NoError(t, err)
	owner, err := os.Stat(pg.DataDir())
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"server.crt": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]},
		"server.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		path := filepath.Join(pg.DataDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
		stat := owner.Sys().(*syscall.Stat_t)
		require.NoError(t, os.Chown(path, int(stat.Uid), int(stat.Gid)))
	}
	w.db.Exec(t, `ALTER SYSTEM SET ssl = on`, `SELECT pg_reload_conf()`)
	var c *wal.Conn
	require.Eventually(t, func() bool {
		c, err = wal.Connect(bounded(t), w.options)
		return err == nil
	}, patience, 20*time.Millisecond)
	defer c.Close()
	state, err := w.catalog(t).Slot(bounded(t), w.options.Slot)
	require.NoError(t, err)
	require.NoError(t, c.Start(bounded(t), state.ConfirmedFlush, state.ConfirmedFlush))
	w.db.Exec(t, `INSERT INTO item SELECT g, 'n' FROM generate_series(10, 20000) g`,
		`INSERT INTO item VALUES (0, repeat('long', 1000000))`)
	ends, messages := commits(t, c, 3) // and the one from before
	require.Equal(t, 4_000_000, strings.Count(string(messages[len(messages)-2]), "long")*4)
	require.Len(t, messages, 3*2+1+1+19991+1)
	c.Confirm(ends[2])
	require.NoError(t, c.Finish(bounded(t)))
}

// A server in recovery, made from the one that was shut down.
func inRecovery(t *testing.T, pg *pgtest.Server) {
	require.NoError(t, os.WriteFile(filepath.Join(pg.DataDir(), "standby.signal"), nil, 0o644))
	require.NoError(t, pg.Restart(bounded(t)))
	defer func() { require.NoError(t, pg.Stop()) }()
	o := wal.Options{DSN: pg.DSN("postgres"), Slot: "on_standby", Publications: []string{"pub"}}
	catalog, err := wal.OpenCatalog(bounded(t), o)
	require.NoError(t, err)
	defer catalog.Close()
	server, err := catalog.Server(bounded(t))
	require.NoError(t, err)
	require.True(t, server.InRecovery)
	end, err := catalog.CurrentLSN(bounded(t))
	require.NoError(t, err)
	require.NotZero(t, end)
	c, err := wal.Connect(bounded(t), o)
	require.NoError(t, err)
	defer c.Close()
	id, err := c.Identify(bounded(t))
	require.NoError(t, err)
	require.NotZero(t, id.XLogPos)
	if pg.Major < 16 {
		_, err = c.CreateSlot(bounded(t))
		haltOf(t, err, core.HaltSourceRefused)
	}
}

// overwrite keeps the file's owner, which is the server's user.
func overwrite(t testing.TB, path string, content []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
