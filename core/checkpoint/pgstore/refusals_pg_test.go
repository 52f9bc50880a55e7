package pgstore_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/pgstore"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestRefusals: what a retry will not change halts, and says why without a secret.
func TestRefusals(t *testing.T) {
	pg := pgtest.Shared(t, 17)
	const secret = "s3cret-value"
	role := func(t *testing.T, db *pgtest.DB, settings ...string) string {
		name := fmt.Sprintf("store_%x", time.Now().UnixNano())
		db.Exec(t, "create role "+name+" login password '"+secret+"'")
		t.Cleanup(func() { db.Exec(t, "drop owned by "+name, "drop role "+name) })
		for _, set := range settings {
			db.Exec(t, fmt.Sprintf(set, name))
		}
		u, err := url.Parse(db.DSN)
		require.NoError(t, err)
		u.User = url.UserPassword(name, secret)
		return u.String()
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, db *pgtest.DB) (dsn string)
		text    string
	}{
		"synchronous_commit off for the role": {func(t *testing.T, db *pgtest.DB) string {
			return role(t, db, "grant create on schema public to %s", "alter role %s set synchronous_commit = off")
		}, "synchronous_commit is off"},
		"synchronous_commit off in the address": {func(t *testing.T, db *pgtest.DB) string {
			return db.DSN + "&options=-csynchronous_commit%3Doff"
		}, "synchronous_commit is off"},
		"no right to create": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, "revoke create on schema public from public")
			return role(t, db)
		}, "lacks a right"},
		"no right on the table": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, pgstore.CreateTable(pgstore.TableDefault))
			return role(t, db)
		}, "lacks a right"},
		"read-only": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, pgstore.CreateTable(pgstore.TableDefault))
			return role(t, db, "grant all on replicant_checkpoints to %s", "alter role %s set default_transaction_read_only = on")
		}, "read-only"},
		"row security": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, pgstore.CreateTable(pgstore.TableDefault), "alter table replicant_checkpoints enable row level security")
			return role(t, db, "grant all on replicant_checkpoints to %s")
		}, "row security"},
		"no such database": {func(t *testing.T, db *pgtest.DB) string {
			return pg.DSN("no_such_database")
		}, "the database does not exist"},
		"no such role": {func(t *testing.T, db *pgtest.DB) string {
			return strings.Replace(db.DSN, "postgres@", "nobody_here:"+secret+"@", 1)
		}, "SQLSTATE 28"},
		"no schema to create in": {func(t *testing.T, db *pgtest.DB) string {
			return db.DSN + "&search_path=nowhere"
		}, "schema does not exist"},
		"a column of another type": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, pgstore.CreateTable(pgstore.TableDefault), "alter table replicant_checkpoints alter pos type text")
			return db.DSN
		}, `column pos of the table is "text"`},
		"a column less": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, "create table replicant_checkpoints (stream_id text primary key)")
			return db.DSN
		}, "column format_version"},
		"no key": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, pgstore.CreateTable(pgstore.TableDefault), "alter table replicant_checkpoints drop constraint replicant_checkpoints_pkey")
			return db.DSN
		}, "no unique key"},
		"unlogged": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, pgstore.CreateTable(pgstore.TableDefault), "alter table replicant_checkpoints set unlogged")
			return db.DSN
		}, "unlogged"},
		"a view": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, "create view replicant_checkpoints as select 1")
			return db.DSN
		}, "no plain table"},
		"a constraint": {func(t *testing.T, db *pgtest.DB) string {
			db.Exec(t, pgstore.CreateTable(pgstore.TableDefault), "alter table replicant_checkpoints add check (sink_name <> 'mirror')")
			return db.DSN
		}, "SQLSTATE 23514"},
	} {
		t.Run(name, func(t *testing.T) {
			db := pg.Database(t)
			s := open(t, pgstore.Options{DSN: c.prepare(t, db)})
			_, err := s.Claim(t.Context(), claiming(0, mine))
			requireHalt(t, err, core.HaltStoreInvalid, c.text)
			require.NotContains(t, err.Error(), secret)
			require.NotContains(t, err.Error(), "mirror", "the server's text may quote values")
			_, err = s.Claim(t.Context(), claiming(0, mine))
			requireHalt(t, err, core.HaltStoreInvalid, "")
		})
	}
	t.Run("an address that is none", func(t *testing.T) {
		_, err := pgstore.New(pgstore.Options{DSN: "postgres://u:" + secret + "@h:x/"})
		requireHalt(t, err, core.HaltConfigInvalid, "address")
		require.NotContains(t, err.Error(), secret)
		_, err = pgstore.New(pgstore.Options{Table: strings.Repeat("x", 64)})
		requireHalt(t, err, core.HaltInvalidIdentifier, "63")
	})
}

// TestSpoiledRows: a row that is not exactly as we write it is refused, never empty.
func TestSpoiledRows(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	s := open(t, pgstore.Options{DSN: db.DSN})
	_, err := s.Claim(t.Context(), claiming(0, mine))
	require.NoError(t, err)
	require.NoError(t, s.Advance(t.Context(), move(1, mine, 0, 9)))
	db.Exec(t, "create table good as table replicant_checkpoints")
	for spoil, text := range map[string]string{
		"format_version = 2":    "format version 2",
		"lineage = '\\x00'":     "never writes",
		"sender_id = ''":        "never writes",
		"epoch = 0":             "never writes",
		"epoch = -1":            "never writes",
		"epoch = 'NaN'":         "never writes",
		"pos = '0/0'":           "never writes",
		"source_timeline = -1":  "never writes",
		"unit_gid = 'prepared'": "two-phase",
	} {
		db.Exec(t, "update replicant_checkpoints set "+spoil)
		_, _, err := s.Read(t.Context(), "orders")
		requireHalt(t, err, core.HaltStoreInvalid, text)
		require.Error(t, s.Advance(t.Context(), move(1, mine, 9, 10)), spoil)
		db.Exec(t, "truncate replicant_checkpoints", "insert into replicant_checkpoints table good")
	}
	r, found, err := s.Read(t.Context(), "orders")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, core.LSN(9), r.Position)

	db.Exec(t, "drop table replicant_checkpoints")
	_, _, err = s.Read(t.Context(), "orders")
	requireHalt(t, err, core.HaltStoreInvalid, "the table is gone")
	db.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'replicant%store' and datname = current_database()")
	for range 2 {
		_, _, err = s.Read(t.Context(), "orders")
		requireHalt(t, err, core.HaltStoreInvalid, "the table is gone")
	}
}

// TestPublishedStore: a store inside the stream it serves would deliver its own writes.
func TestPublishedStore(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create publication everything for all tables", "create publication nothing")
	here := source
	require.NoError(t, db.Conn(t).QueryRow(t.Context(), "select system_identifier::text, current_database() from pg_control_system()").Scan(&here.SystemIdentifier, &here.Database))
	claim := claiming(0, mine)
	claim.Source = here
	_, err := open(t, pgstore.Options{DSN: db.DSN, Publications: []string{"nothing", "everything"}}).Claim(t.Context(), claim)
	requireHalt(t, err, core.HaltStoreInvalid, `publication "everything"`)
	elsewhere := claim
	elsewhere.StreamID, elsewhere.Source.SystemIdentifier = "2", "7"
	_, err = open(t, pgstore.Options{DSN: db.DSN, Publications: []string{"everything"}}).Claim(t.Context(), elsewhere)
	require.NoError(t, err, "another cluster's publication of that name is not this one")
	_, err = open(t, pgstore.Options{DSN: db.DSN, Publications: []string{"nothing"}}).Claim(t.Context(), claim)
	require.NoError(t, err)
}
