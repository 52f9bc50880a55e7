package testsink_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
)

// big is a value that is stored out of line, and differs by its letter.
func big(letter string) string { return "repeat('" + letter + "', 9000)" }

var shapes = []string{
	`CREATE TABLE plain (id int PRIMARY KEY, v text, n numeric, at timestamptz)`,
	`CREATE TABLE pair (b int, a text, v int, PRIMARY KEY (a, b))`,
	`CREATE TABLE toasted (id int PRIMARY KEY, n int, doc text, doc2 text)`,
	`ALTER TABLE toasted ALTER doc SET STORAGE EXTERNAL, ALTER doc2 SET STORAGE EXTERNAL`,
	`CREATE TABLE keyless (a int, b text); ALTER TABLE keyless REPLICA IDENTITY FULL`,
	`CREATE TABLE fullkey (id int PRIMARY KEY, v text); ALTER TABLE fullkey REPLICA IDENTITY FULL`,
	`CREATE TABLE byindex (id int PRIMARY KEY, code text NOT NULL UNIQUE, v int); ALTER TABLE byindex REPLICA IDENTITY USING INDEX byindex_code_key`,
	`CREATE TABLE onlyinsert (v text)`,
	`CREATE TABLE bigkey (k text PRIMARY KEY, v int, doc text); ALTER TABLE bigkey ALTER k SET STORAGE EXTERNAL, ALTER doc SET STORAGE EXTERNAL`,
	`CREATE SCHEMA "odd ""s"`,
	`CREATE TABLE "odd ""s"."a.b ""c" ("x ""y" int PRIMARY KEY, "select" text[])`,
	`CREATE TABLE bare ()`,
	`CREATE TABLE gen (id int PRIMARY KEY, v int, twice int GENERATED ALWAYS AS (v * 2) STORED)`,
}

// story does everything that a mirror has to follow; each line is one transaction.
var story = []struct {
	changes int
	sql     string
}{
	{3, `INSERT INTO plain SELECT i, 'v' || i, i / 3.0, now() FROM generate_series(1, 3) i`},
	{2, `UPDATE plain SET v = NULL WHERE id = 1; UPDATE plain SET v = '' WHERE id = 2`},
	{3, `INSERT INTO plain (id) VALUES (9); UPDATE plain SET v = 'x' WHERE id = 9; DELETE FROM plain WHERE id = 9`},
	{3, `DELETE FROM plain WHERE id = 3; INSERT INTO plain (id, v) VALUES (3, 'again'); UPDATE plain SET id = 30 WHERE id = 3`},
	{4, `INSERT INTO pair VALUES (1, 'x', 1), (2, 'x', 2), (1, 'y', 3); UPDATE pair SET a = 'z' WHERE v = 2`},
	{3, `UPDATE pair SET b = 7 WHERE v = 1; DELETE FROM pair WHERE v = 3; INSERT INTO pair VALUES (1, 'y', 4)`},
	{2, `INSERT INTO toasted VALUES (1, 0, ` + big("a") + `, ` + big("b") + `), (2, 0, ` + big("c") + `, NULL)`},
	{3, `UPDATE toasted SET n = 1; UPDATE toasted SET n = 2, doc2 = ` + big("d") + ` WHERE id = 1`},
	{2, `UPDATE toasted SET id = 10 WHERE id = 1; UPDATE toasted SET id = 1 WHERE id = 2`},
	{2, `UPDATE toasted SET n = 5 WHERE id = 10; UPDATE toasted SET doc = 'short' WHERE id = 10`},
	{4, `INSERT INTO keyless VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, NULL)`},
	{3, `DELETE FROM keyless WHERE ctid = (SELECT min(ctid) FROM keyless); UPDATE keyless SET b = 'n' WHERE a = 2; UPDATE keyless SET b = NULL WHERE a = 2`},
	{4, `INSERT INTO fullkey VALUES (1, ` + big("e") + `), (2, 'b'); UPDATE fullkey SET id = 3 WHERE id = 1; DELETE FROM fullkey WHERE id = 2`},
	{4, `INSERT INTO byindex VALUES (1, 'a', 1), (2, 'b', 2); UPDATE byindex SET code = 'c' WHERE id = 1; UPDATE byindex SET id = 5 WHERE id = 2`},
	{2, `INSERT INTO bigkey VALUES (repeat('k', 2400), 1, ` + big("f") + `), (repeat('l', 2400), 1, ` + big("g") + `)`},
	{2, `UPDATE bigkey SET v = 2 WHERE k LIKE 'k%'; UPDATE bigkey SET k = 'short' WHERE k LIKE 'l%'`},
	{2, `INSERT INTO onlyinsert VALUES ('same'), ('same')`},
	{3, `INSERT INTO "odd ""s"."a.b ""c" VALUES (1, '{a,"b c",NULL}'), (2, '{}'); UPDATE "odd ""s"."a.b ""c" SET "x ""y" = 3 WHERE "x ""y" = 2`},
	{2, `INSERT INTO bare DEFAULT VALUES; INSERT INTO bare DEFAULT VALUES`},
	{2, `INSERT INTO gen VALUES (1, 1); UPDATE gen SET v = 5`},
	{4, `INSERT INTO plain (id, v) VALUES (100, 'gone'); TRUNCATE plain, onlyinsert; INSERT INTO plain (id, v) VALUES (101, 'stays'); INSERT INTO onlyinsert VALUES ('one')`},
	{2000, `INSERT INTO plain (id, v) SELECT i, md5(i::text) FROM generate_series(1000, 2999) i`},
	{2500, `UPDATE plain SET v = v || '!' WHERE id >= 1000; DELETE FROM plain WHERE id BETWEEN 1500 AND 1999`},
}

// tell writes the story and returns the number of its last transaction.
func (r *road) tell(from int) int {
	r.Helper()
	for i, s := range story {
		r.tx(from+i, s.changes, s.sql)
	}
	return from + len(story) - 1
}

func TestMirrorFollows(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		for name, adjust := range map[string]func(*road){
			"batch":       func(r *road) {},
			"transaction": func(r *road) { r.options.Delivery.Mode = pipeline.ModeTransaction },
			"large":       func(r *road) { r.config.Limits = core.SinkLimits{RequestBytes: 64 << 10} },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRoad(t, pg, testsink.Config{Kind: testsink.KindBoth}, shapes...)
				adjust(r)
				r.serve()
				r.stream()
				last := r.tell(1)
				r.arrived(1, last)
				r.mirrored(len(shapes)-3, 1500)
				report := r.log()
				require.NoError(t, report.Once())
				require.Equal(t, last, report.Transactions)
				for call, in := range map[string]string{"HandleLargeTransaction": "large", "HandleBatch": "batch"} {
					_, had := r.calls.Load(call)
					require.Equal(t, name == in || name == "large", had, call)
				}
				r.drain()

				// What happens while nobody looks comes in one go, and nothing twice.
				r.source.Exec(t, "TRUNCATE plain, pair, toasted, keyless, fullkey, byindex, bigkey, gen, \"odd \"\"s\".\"a.b \"\"c\"")
				last = r.tell(last + 1)
				r.stream()
				r.arrived(1, last)
				r.mirrored(len(shapes)-3, 1500)
				require.NoError(t, r.log().Once())
				r.drain()
			})
		}
	})
}
