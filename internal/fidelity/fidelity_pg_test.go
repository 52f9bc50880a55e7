package fidelity_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/fidelity"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// typesMin is how many types a proof covers at least.
const typesMin = 150

var all = flag.Bool("all", false, "prove it on every major, and not on one")

// each runs a test on every major, or on one.
func each(t *testing.T, f func(t *testing.T, pg *pgtest.Server)) {
	if *all {
		pgtest.ForEach(t, f)
		return
	}
	f(t, pgtest.Shared(t, 17))
}

// Every value of every type has the same bytes on every path, under a role whose settings
// would print it in another way.
func TestFidelity(t *testing.T) {
	each(t, func(t *testing.T, pg *pgtest.Server) {
		w := newWorld(t, pg, hostileHere())
		w.db.Exec(t, `CREATE TABLE mark (id serial PRIMARY KEY)`, `GRANT SELECT ON mark TO reader`)
		w.insert()
		given := map[string]map[string]fidelity.Values{}
		values(given, w.sidecar(checkpoint.SnapshotInitial, func() {
			for _, table := range w.tables {
				w.db.Exec(t, "UPDATE "+table.Name+" SET n = n + 1")
			}
			for _, table := range w.tables {
				w.db.Exec(t, "DELETE FROM "+table.Name)
			}
			w.insert()
		}), fidelity.PathInitial)
		values(given, w.sidecar(checkpoint.SnapshotIncremental, func() {}), fidelity.PathChunk)
		right := w.chunks(w.connect(w.db.DSN, reference))
		report := &fidelity.Report{Major: pg.Major}
		for _, table := range w.tables {
			report.Compare(table, right[table.Name], given[table.Name])
		}
		t.Log(report)
		require.Empty(t, report.Differences)
		require.GreaterOrEqual(t, report.Types, typesMin)
	})
}

// hostileHere adds the locale of money, where the machine could make one.
func hostileHere() map[string]string {
	settings := maps.Clone(hostile)
	if money {
		settings["lc_monetary"] = foreign
	}
	return settings
}

// Each pinned setting is needed: without it, the role's own shows, and is seen.
func TestEachPinnedSettingIsNeeded(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t, 17), hostileHere())
	w.insert()
	right := w.chunks(w.connect(w.db.DSN, reference))
	pinned := map[string]string{}
	for _, s := range wal.PinnedSettings() {
		if s.Since == 0 {
			pinned[s.Name] = s.Value
		}
	}
	differences := func(settings map[string]string) int {
		chunks, err := w.tryChunks(w.connect(w.dsn(), settings))
		if err != nil {
			t.Logf("the server refuses: %v", err)
		}
		report := &fidelity.Report{Major: 17}
		for _, table := range w.tables {
			report.Compare(table, right[table.Name], map[string]fidelity.Values{fidelity.PathChunk: chunks[table.Name]})
		}
		return report.By[fidelity.PathChunk]
	}
	require.Zero(t, differences(pinned))
	for name := range hostileHere() {
		without := maps.Clone(pinned)
		delete(without, name)
		require.Len(t, without, len(pinned)-1, name)
		found := differences(without)
		t.Logf("without %s: %d values differ or are not there", name, found)
		require.NotZero(t, found, name)
	}
	if !money {
		t.Log("lc_monetary was not tried: this machine cannot make a locale")
	}
}

// inner are types that no column has a value of to read: what indexes and statistics keep.
var inner = []string{
	"gtsvector", "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary",
	"ghstore", "ltree_gist", "intbig_gkey",
}

const typesSQL = `SELECT pg_catalog.format_type(t.oid, NULL) FROM pg_type t WHERE t.typcategory <> 'A' AND t.typtype IN ('b', 'd', 'e', 'm', 'r')
AND (t.typnamespace = 'pg_catalog'::regnamespace OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'))`

// No type is forgotten: what the catalog lists, of Postgres itself and of the extensions,
// has values here.
func TestEveryTypeIsListed(t *testing.T) {
	each(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, fidelity.Setup...)
		conn := db.Conn(t)
		var names []string
		for _, listed := range fidelity.Types() {
			names = append(names, listed.Name)
		}
		ask := func(sql string, args ...any) []string {
			rows, err := conn.Query(t.Context(), sql, args...)
			require.NoError(t, err)
			list, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			return list
		}
		if pg.Major < 15 {
			names = slices.DeleteFunc(names, func(name string) bool { return name == "numeric(3,-2)" || name == "numeric(2,5)" })
		}
		listed := ask(`SELECT format_type(to_regtype(name), NULL) FROM unnest($1::text[]) name`, names)
		there := ask(typesSQL)
		require.Greater(t, len(there), 80)
		for _, name := range there {
			if !slices.Contains(inner, name) {
				require.Contains(t, listed, name)
			}
		}
	})
}
