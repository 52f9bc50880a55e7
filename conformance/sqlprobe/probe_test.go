package sqlprobe_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/sqlprobe"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.NoLeaks()) }

func text(s string) conformance.Value { return conformance.Value{Text: []byte(s)} }

var null = conformance.Value{Null: true}

func read(t *testing.T, o sqlprobe.Options, schema, table string) conformance.Table {
	t.Helper()
	p, err := sqlprobe.New(o)
	require.NoError(t, err)
	got, err := p.ReadTable(t.Context(), schema, table)
	require.NoError(t, err)
	return got
}

func TestSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "it's 100%.db")
	o := sqlprobe.Options{DSN: "sqlite:" + file, Hidden: []string{"origin"}}
	require.True(t, read(t, o, "public", "t").Missing, "there is no file")

	db, err := sql.Open("sqlite", "file:"+filepath.Dir(file)+"/it's%20100%25.db")
	require.NoError(t, err)
	defer db.Close()
	for _, statement := range []string{
		`PRAGMA journal_mode = WAL`,
		`CREATE TABLE "public.t" (id, "q""q", origin)`,
		`INSERT INTO "public.t" VALUES ('1', '', 's'), (2, NULL, 's'), (x'ff00', 'NULL', 's'), ('a' || char(0) || 'b', 1.5, 's')`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	got := read(t, o, "public", "t")
	require.Equal(t, []string{"id", `q"q`}, got.Columns)
	require.ElementsMatch(t, [][]conformance.Value{
		{text("1"), text("")}, {text("2"), null}, {text("\xff\x00"), text("NULL")}, {text("a\x00b"), text("1.5")},
	}, got.Rows)
	require.True(t, read(t, o, "public", "other").Missing)

	o.Table = "{table}"
	require.True(t, read(t, o, "public", "t").Missing)

	for _, statement := range []string{
		`CREATE TABLE _replicant_columns (pg_schema, pg_table, pg_column, "table", "column")`,
		`CREATE TABLE stored (c1, c2)`,
		`INSERT INTO stored VALUES ('x', NULL)`,
		`INSERT INTO _replicant_columns VALUES ('Sales', 'Big.Table', 'Id', 'stored', 'c1'), ('Sales', 'Big.Table', 'Na me', 'stored', 'c2')`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	got = read(t, o, "Sales", "Big.Table")
	require.Equal(t, []string{"Id", "Na me"}, got.Columns)
	require.Equal(t, [][]conformance.Value{{text("x"), null}}, got.Rows)
	require.True(t, read(t, o, "public", "t").Missing, "what is not on the list is not there")
}

func TestPostgres(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, `create schema "Big"`)
		db.Exec(t, `create table "Big"."T t" (id text, "Name" text, gone text, n numeric)`)
		db.Exec(t, `alter table "Big"."T t" drop column gone`)
		db.Exec(t, `insert into "Big"."T t" values ('1', '', 1.10), ('2', null, null)`)
		got := read(t, sqlprobe.Options{DSN: db.DSN}, "Big", "T t")
		require.Equal(t, []string{"id", "Name", "n"}, got.Columns)
		require.ElementsMatch(t, [][]conformance.Value{{text("1"), text(""), text("1.10")}, {text("2"), null, null}}, got.Rows)
		require.True(t, read(t, sqlprobe.Options{DSN: db.DSN}, "big", "T t").Missing)
	})
}

func TestOtherStores(t *testing.T) {
	for _, dsn := range []string{"", "mysql://x", "sqlite:"} {
		_, err := sqlprobe.New(sqlprobe.Options{DSN: dsn})
		require.Error(t, err)
	}
}
