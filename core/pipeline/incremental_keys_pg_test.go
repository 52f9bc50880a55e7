package pipeline_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestN04OrderOfKeys: chunks of two rows, under keys that Postgres sorts in its own way.
func TestN04OrderOfKeys(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create extension citext schema public",
			"create collation blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
		var tables []string
		for name, c := range map[string][2]string{
			"icu":      {`text collate "en-x-icu"`, "('a'),('B'),('ä'),('_'),('Z'),('aa'),('')"},
			"blindly":  {"text collate blind", "('a'),('B'),('ä'),('_'),('Z'),('aa'),('')"},
			"ci":       {"public.citext", "('a'),('B'),('_'),('Z'),('aa'),(''),('AB'),('b''c')"},
			"uids":     {"uuid", "('00000000-0000-0000-0000-000000000001'),('ffffffff-ffff-ffff-ffff-ffffffffffff'),('0a000000-0000-0000-0000-000000000000')"},
			"bytes":    {"bytea", `('\x'),('\x00'),('\xff'),('\x0001'),('\x5c27')`},
			"numbers":  {"numeric", "('NaN'),(-1),(0),(1e300),(0.1),(10),(9)"},
			"floats":   {"float8", "('NaN'),('-Infinity'),('Infinity'),(0),(1e-300),(10),(9)"},
			"times":    {"timestamptz", "('-infinity'),('infinity'),('2020-01-01'),('0001-01-01 BC'),('2020-01-01 00:00:00.000001')"},
			"chars":    {"char(5)", "('a'),('b'),('ab'),(''),('zzzzz')"},
			"enums":    {"mood", "('sad'),('ok'),('happy')"},
			"domains":  {"short", "('a'),('B'),('_')"},
			"arrays":   {"int[]", "('{}'),('{1}'),('{1,2}'),('{10}'),('{9}')"},
			"booleans": {"bool", "(true),(false)"},
			"oids":     {"oid", "(1),(4294967295),(3000000000)"},
			"Na.\"me":  {"int", "(1),(2),(3),(4),(5)"},
		} {
			if name == "enums" {
				db.Exec(t, "create type mood as enum ('sad', 'ok', 'happy')")
			}
			if name == "domains" {
				db.Exec(t, `create domain short as varchar(3) collate "C"`)
			}
			quoted := `"` + map[bool]string{true: `Na.""me`, false: name}[name == "Na.\"me"] + `"`
			db.Exec(t, "create table "+quoted+" (k "+c[0]+" primary key, v int default 0)", "insert into "+quoted+" (k) values "+c[1])
			tables = append(tables, name)
		}
		db.Exec(t, "create publication p for all tables")
		sink := sinktest.NewMemory()
		once := false
		sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
			if len(u.Rows) > 0 && !once {
				once = true
				db.Exec(t, "update icu set v = 1 where k in ('B', 'aa')", "delete from icu where k = '_'", "update blindly set k = 'A' where k = 'a'",
					"update ci set k = 'A' where k = 'a'", "update numbers set k = 9.00 where k = 9", "delete from floats where k = 'NaN'")
			}
			return nil
		}
		o := beside(db, sink)
		o.Copy.ChunkRows = 2
		r := start(t, o)
		copied(t, r, sink)
		slices.Sort(tables)
		for _, name := range tables {
			if name == "Na.\"me" {
				require.Len(t, sink.Rows("public", name), 5)
				continue
			}
			alike(t, r, db, sink, name)
		}
	})
}

// TestN05CompositeKeys: each row once, though chunks end within equal first columns.
func TestN05CompositeKeys(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create extension citext schema public", "create table a(a int, b int, c text, primary key (a, b))",
		"insert into a select i % 3, i, 'x' from generate_series(1, 1000) i",
		"create table b(a public.citext, b int, c text, primary key (a, b))", // no one operator compares it as a row
		"insert into b select case when i % 2 = 0 then 'K' else 'k' end || i % 3, i, 'x' from generate_series(1, 1000) i",
		"create publication p for all tables")
	sink := sinktest.NewMemory()
	o := beside(db, sink)
	o.Copy.ChunkRows = 7
	r := start(t, o)
	copied(t, r, sink)
	alike(t, r, db, sink, "a", "b")
	rows := map[string]int{}
	for _, u := range sink.SnapshotUnits() {
		if u.Relation != nil {
			rows[u.Relation.Name] += len(u.Rows)
		}
	}
	require.Equal(t, map[string]int{"a": 1000, "b": 1000}, rows, "nothing twice")
}
