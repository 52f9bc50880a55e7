package snapshot_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
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

func plain(t testing.TB, o wal.Options) *pgconn.PgConn {
	t.Helper()
	pg, err := wal.OpenPlain(bounded(t), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pg.Close(context.Background()) })
	return pg
}

// streamed is what a slot sent of one relation.
type streamed struct {
	relation *core.Relation
	rows     []string // of inserts
}

// show prints a row so that no two different rows look alike.
func show(kinds string, values []string) string {
	return kinds + "|" + strings.Join(values, "\x1f")
}

// read takes the stream of the slot up to the transaction that inserts into done.
func read(t *testing.T, o wal.Options, from core.LSN) map[uint32]*streamed {
	t.Helper()
	conn, err := wal.Connect(bounded(t), o)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Start(bounded(t), from, from))
	decoder := pgoutput.NewDecoder(pgoutput.Options{})
	all, known := map[uint32]*streamed{}, map[uint32]*core.Relation{}
	var batch wal.Batch
	for {
		require.NoError(t, conn.Read(bounded(t), &batch))
		for _, f := range batch.Frames {
			if f.Keepalive {
				continue
			}
			var m pgoutput.Message
			require.NoError(t, decoder.Decode(f.Data, &m))
			switch m.Kind {
			case pgoutput.KindRelation:
				known[m.Relation.OID] = m.Relation
			case pgoutput.KindInsert:
				r := known[m.RelationOID]
				if r.Name == "done" {
					return all
				}
				if all[r.OID] == nil {
					all[r.OID] = &streamed{}
				}
				all[r.OID].relation = r
				var kinds strings.Builder
				var values []string
				for _, v := range m.New.Values() {
					kinds.WriteByte(v.Kind)
					values = append(values, string(v.Data))
				}
				all[r.OID].rows = append(all[r.OID].rows, show(kinds.String(), values))
			}
		}
	}
}

// scene is tables, publications and rows.
type scene struct {
	since        int
	setup        []string
	publications []string
	rows         []string
}

var scenes = map[string]scene{
	"keys": {
		setup: []string{
			`CREATE TABLE k1 (a int, b text, c varchar(7), PRIMARY KEY (b, a) INCLUDE (c))`,
			`CREATE TABLE k2 (a int NOT NULL, b int UNIQUE, v numeric(10,2))`, `CREATE UNIQUE INDEX k2a ON k2 (a)`, `ALTER TABLE k2 REPLICA IDENTITY USING INDEX k2a`,
			`CREATE TABLE k3 (a int PRIMARY KEY, b int)`, `ALTER TABLE k3 REPLICA IDENTITY FULL`,
			`CREATE TABLE k4 (a int PRIMARY KEY)`, `ALTER TABLE k4 REPLICA IDENTITY NOTHING`,
			`CREATE TABLE k5 (a int, b text)`,
			`CREATE TABLE k6 (a int, b int, PRIMARY KEY (a) DEFERRABLE)`,
			`CREATE TABLE k7 ()`,
			`CREATE PUBLICATION p FOR ALL TABLES`,
		},
		publications: []string{"p"},
		rows: []string{
			`INSERT INTO k1 VALUES (1, 'x', NULL), (2, E'tab\tback\\slash\nline\r\v\f\b', 'y'), (3, '\N', ''), (4, '', NULL)`,
			`INSERT INTO k2 VALUES (1, NULL, 1.50)`, `INSERT INTO k3 VALUES (1, 2)`, `INSERT INTO k4 VALUES (1)`,
			`INSERT INTO k5 VALUES (1, NULL), (NULL, 'z'), (1, NULL)`, `INSERT INTO k6 VALUES (1, 2)`, `INSERT INTO k7 DEFAULT VALUES`,
		},
	},
	"names and dropped columns": {
		setup: []string{
			`CREATE SCHEMA "S x"`, `CREATE TABLE "S x"."T.""able" ("select" int, gone text, "Ünï" text, "a b" int, PRIMARY KEY ("a b", "select"))`,
			`ALTER TABLE "S x"."T.""able" DROP gone`, `CREATE TYPE "S x"."Mood" AS ENUM ('a b')`,
			`ALTER TABLE "S x"."T.""able" ADD m "S x"."Mood"[], ADD t timestamptz(3)`,
			`CREATE UNLOGGED TABLE "S x".unlogged (a int)`, `CREATE PUBLICATION "P ub" FOR ALL TABLES`,
		},
		publications: []string{"P ub"},
		rows:         []string{`INSERT INTO "S x"."T.""able" VALUES (1, 'ä', 2, '{"a b",NULL}', '2024-01-01 12:00+03')`},
	},
	"generated": {
		setup: []string{
			`CREATE TABLE g (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED, c int)`, `CREATE PUBLICATION p FOR TABLE g`,
		},
		publications: []string{"p"},
		rows:         []string{`INSERT INTO g (a, c) VALUES (1, 2)`},
	},
	"inheritance": {
		setup: []string{
			`CREATE TABLE parent (a int PRIMARY KEY)`, `CREATE TABLE child (b int) INHERITS (parent)`, `CREATE PUBLICATION p FOR TABLE parent`,
		},
		publications: []string{"p"},
		rows:         []string{`INSERT INTO parent VALUES (1)`, `INSERT INTO child VALUES (2, 3)`},
	},
	"partitions under their own names": {
		setup: append(partitioned(), `CREATE PUBLICATION p FOR TABLE root`), publications: []string{"p"},
		rows: []string{`INSERT INTO root VALUES (1, 'a'), (11, 'b'), (15, 'c')`},
	},
	"partitions under the root's name": {
		setup: append(partitioned(), `CREATE PUBLICATION p FOR TABLE root WITH (publish_via_partition_root)`), publications: []string{"p"},
		rows: []string{`INSERT INTO root VALUES (1, 'a'), (11, 'b'), (15, 'c')`},
	},
	"root and leaf in two publications": {
		setup: append(partitioned(), `CREATE PUBLICATION p FOR TABLE root WITH (publish_via_partition_root)`, `CREATE PUBLICATION q FOR TABLE leaf1, leaf2a`,
			`CREATE PUBLICATION r FOR TABLE sub WITH (publish_via_partition_root)`),
		publications: []string{"q", "p", "r"},
		rows:         []string{`INSERT INTO root VALUES (1, 'a'), (11, 'b'), (15, 'c')`},
	},
	"a sub-tree": {
		setup: append(partitioned(), `CREATE PUBLICATION p FOR TABLE sub WITH (publish_via_partition_root)`), publications: []string{"p"},
		rows: []string{`INSERT INTO root VALUES (1, 'a'), (11, 'b'), (15, 'c')`},
	},
	"column list": {
		since: 15,
		setup: []string{
			`CREATE TABLE c (a int PRIMARY KEY, b text, c int)`, `CREATE TABLE d (a int PRIMARY KEY, b text)`,
			`CREATE PUBLICATION p FOR TABLE c (c, a)`, `CREATE PUBLICATION q FOR TABLE c (a, c), d`,
		},
		publications: []string{"p", "q"},
		rows:         []string{`INSERT INTO c VALUES (1, 'hidden', 3)`, `INSERT INTO d VALUES (1, 'x')`},
	},
	"row filters": {
		since: 15,
		setup: []string{
			`CREATE TABLE f (a int PRIMARY KEY, "B" text)`, `CREATE TABLE f2 (a int PRIMARY KEY)`,
			`CREATE PUBLICATION p FOR TABLE f WHERE ("B" = 'x' OR a = 7), f2 WHERE (a > 1)`, `CREATE PUBLICATION q FOR TABLE f WHERE (a IN (2, 3)), f2`,
		},
		publications: []string{"p", "q"},
		rows:         []string{`INSERT INTO f VALUES (1, 'x'), (2, 'y'), (4, 'y'), (5, NULL), (7, 'z')`, `INSERT INTO f2 VALUES (1), (2)`},
	},
	"row filter of a root": {
		since: 15,
		setup: append(partitioned(), `CREATE PUBLICATION p FOR TABLE root WHERE (a <> 11) WITH (publish_via_partition_root)`), publications: []string{"p"},
		rows: []string{`INSERT INTO root VALUES (1, 'a'), (11, 'b'), (15, 'c')`},
	},
	"a schema": {
		since: 15,
		setup: append(partitioned(), `CREATE SCHEMA s`, `CREATE TABLE s.a (a int PRIMARY KEY)`, `CREATE TABLE s.leaf3 PARTITION OF root FOR VALUES FROM (20) TO (30)`,
			`CREATE PUBLICATION p FOR TABLES IN SCHEMA s`),
		publications: []string{"p"},
		rows:         []string{`INSERT INTO s.a VALUES (1)`, `INSERT INTO root VALUES (1, 'a'), (21, 'b')`},
	},
	"generated columns of a publication": {
		since: 18,
		setup: []string{
			`CREATE TABLE g (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED, c int GENERATED ALWAYS AS (a * 3) VIRTUAL)`,
			`CREATE TABLE h (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED, d int)`,
			`CREATE PUBLICATION p FOR TABLE g WITH (publish_generated_columns = stored)`, `CREATE PUBLICATION q FOR TABLE h (a, b)`,
		},
		publications: []string{"p", "q"},
		rows:         []string{`INSERT INTO g VALUES (1)`, `INSERT INTO h (a, d) VALUES (1, 2)`},
	},
}

// partitioned is a tree of three levels whose leaves differ from the root in their
// column order.
func partitioned() []string {
	return []string{
		`CREATE TABLE root (a int, v text, PRIMARY KEY (a)) PARTITION BY RANGE (a)`,
		`CREATE TABLE leaf1 (v text, gone int, a int NOT NULL)`, `ALTER TABLE leaf1 DROP gone`,
		`ALTER TABLE root ATTACH PARTITION leaf1 FOR VALUES FROM (0) TO (10)`,
		`CREATE TABLE sub PARTITION OF root FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (a)`,
		`CREATE TABLE leaf2a PARTITION OF sub FOR VALUES FROM (10) TO (13)`, `CREATE TABLE leaf2b PARTITION OF sub FOR VALUES FROM (13) TO (20)`,
	}
}

// TestReadsWhatIsStreamed compares, for each scene and major, what the catalog is read as
// with what the stream's Relation messages say, and the rows read with the rows streamed.
func TestReadsWhatIsStreamed(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		for name, s := range scenes {
			if pg.Major < s.since {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db := pg.Database(t)
				db.Exec(t, append([]string{`CREATE TABLE done (a int)`}, s.setup...)...)
				db.Exec(t, `CREATE PUBLICATION "done" FOR TABLE done`)
				o := wal.Options{DSN: db.DSN, Slot: "s_" + db.Name, Publications: append(slices.Clone(s.publications), "done")}
				var text string
				require.NoError(t, db.Conn(t).QueryRow(bounded(t), `SELECT lsn::text FROM pg_create_logical_replication_slot('`+o.Slot+`', 'pgoutput')`).Scan(&text))
				from, err := core.ParseLSN(text)
				require.NoError(t, err)
				db.Exec(t, s.rows...)
				db.Exec(t, `INSERT INTO done VALUES (1)`)
				compare(t, plain(t, o), s.publications, read(t, o, from))
			})
		}
	})
}

func compare(t *testing.T, pg *pgconn.PgConn, publications []string, stream map[uint32]*streamed) {
	t.Helper()
	tables, err := snapshot.Tables(bounded(t), pg, publications)
	require.NoError(t, err)
	seen := 0
	for _, table := range tables {
		if table.Relation.Name == "done" {
			continue
		}
		sent := stream[table.Relation.OID]
		require.NotNil(t, sent, "%s is not streamed", table)
		seen++
		require.Equal(t, *sent.relation, table.Relation)
		require.Empty(t, table.Missing)
		require.False(t, table.RowSecurity)
		slices.Sort(sent.rows)
		require.Equal(t, sent.rows, selected(t, pg, table), "%s", table)
		for _, pages := range []int64{0, 1, 1000} {
			require.Equal(t, sent.rows, copied(t, pg, table, pages), "%s by %d pages", table, pages)
		}
	}
	require.Len(t, stream, seen, "the stream knows tables that are not read")
}

// selected reads the whole table by the text result format.
func selected(t *testing.T, pg *pgconn.PgConn, table *snapshot.Table) []string {
	t.Helper()
	results, err := pg.Exec(bounded(t), table.Select("")).ReadAll()
	require.NoError(t, err)
	require.Len(t, results, 1)
	var rows []string
	for _, row := range results[0].Rows {
		kinds, values := "", make([]string, len(row))
		for i, v := range row {
			values[i] = string(v)
			kinds += map[bool]string{true: "n", false: "t"}[v == nil]
		}
		rows = append(rows, show(kinds, values))
	}
	slices.Sort(rows)
	return rows
}
