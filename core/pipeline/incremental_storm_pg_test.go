package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// keys are kinds of key that sort or compare in a way of their own.
var keys = []struct{ table, columns, key, make string }{
	{"plain", "id int, n int, v text", "id", "%d"},
	{"pair", "a text, b int, n int, v text", "a, b", `'ä_Z' || (%[1]d %% 7), %[1]d`},
	{"collated", `k text collate "en-x-icu", n int, v text`, "k", `chr(65 + %[1]d %% 57) || %[1]d`},
	{"uid", "k uuid, n int, v text", "k", `md5((%d)::text)::uuid`},
	{"num", "k numeric, n int, v text", "k", `(%[1]d - 250)::numeric / 8 + case when %[1]d %% 9 = 0 then 0.00 else 0 end`},
	{"blind", "k public.citext, n int, v text", "k", `(case when %[1]d %% 2 = 0 then 'KEY' else 'key' end) || %[1]d`},
	{"whole", "id int, n int, v text", "id", "%d"},
	{"stamp", "k timestamptz, n int, v text", "k", `'2020-01-01'::timestamptz + %d * interval '1 minute'`},
	{"keyless", "id int, n int, v text", "id", "%d"},
	{"keylessinserts", "id int, n int, v text", "id", "%d"},
	{"parts", "id int, n int, v text", "id", "%d"},
}

const stormRows = 500

// TestN16KilledAgainAndAgain: tables are copied under load while the sidecar is
// killed again and again, and each time goes on from the token.
func TestN16KilledAgainAndAgain(t *testing.T) {
	on17(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create extension citext schema public")
		var tables []string
		for _, k := range keys {
			with, key := "", ", primary key ("+k.key+")"
			if strings.HasPrefix(k.table, "keyless") {
				key = ""
			}
			if k.table == "parts" {
				with = " partition by hash (id)"
			}
			db.Exec(t, fmt.Sprintf("create table %s (%s%s)%s", k.table, k.columns, key, with))
			if with != "" {
				db.Exec(t, "create table parts0 partition of parts for values with (modulus 2, remainder 0)",
					"create table parts1 partition of parts for values with (modulus 2, remainder 1)")
			} else {
				tables = append(tables, k.table)
			}
			db.Exec(t, fmt.Sprintf("alter table %s alter v set storage external", k.table),
				fmt.Sprintf("insert into %s select %s, 0, repeat('x', 2500) from generate_series(1, %d) i", k.table, numbered(k.make, "i"), stormRows))
		}
		db.Exec(t, "alter table whole replica identity full", "alter table keyless replica identity full", "create publication p for all tables with (publish_via_partition_root = true)")
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan int)
		const writers = 2
		for w := range writers {
			conn := db.Conn(t)
			go func() { over <- storm(ctx, conn, uint64(w)) }()
		}
		sink := sinktest.NewMemory()
		sink.BeforeSnapshot = func(*core.SnapshotUnit) error { time.Sleep(3 * time.Millisecond); return nil }
		o := beside(db, sink)
		o.Copy.ChunkRows = 40
		o.Delivery.Mode = pipeline.ModeBatch
		for range 8 {
			aborted, abort := context.WithCancel(t.Context())
			p, err := pipeline.New(o)
			require.NoError(t, err)
			time.AfterFunc(time.Duration(100+rand.IntN(400))*time.Millisecond, abort)
			require.ErrorIs(t, p.Run(aborted), pipeline.ErrAbort)
		}
		r := start(t, o)
		copied(t, r, sink)
		stop()
		for range writers {
			require.Positive(t, <-over)
		}
		alike(t, r, db, sink, tables...)
		require.Eventually(t, func() bool {
			var n int
			require.NoError(t, db.Conn(t).QueryRow(t.Context(), "select count(*) from parts").Scan(&n))
			return n == len(sink.Rows("public", "parts"))
		}, patience, 50*time.Millisecond)
		t.Logf("%d units", len(sink.SnapshotUnits()))
	})
}

// numbered puts a number, or a name, into an expression.
func numbered(expression, number string) string {
	return fmt.Sprintf(replaceVerbs(expression), number)
}

func replaceVerbs(expression string) string {
	return strings.NewReplacer("%d", "%[1]s", "%[1]d", "%[1]s").Replace(expression)
}

// storm changes random rows of all tables until ctx ends: with and without the TOAST column,
// with changes of the key, freed and taken in one transaction.
func storm(ctx context.Context, conn *pgx.Conn, seed uint64) (made int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for ctx.Err() == nil {
		k := keys[rng.IntN(len(keys))]
		one, other := numbered(k.make, fmt.Sprint(1+rng.IntN(stormRows))), numbered(k.make, fmt.Sprint(1+rng.IntN(stormRows)))
		where := fmt.Sprintf("where row(%s) = row(%s)", k.key, one)
		sql := []string{
			fmt.Sprintf("update %s set n = n + 1 %s", k.table, where),
			fmt.Sprintf("update %s set n = n + 1, v = repeat('y', 2500) %s", k.table, where),
			fmt.Sprintf("delete from %s %s", k.table, where),
			fmt.Sprintf("insert into %s values (%s, -1, repeat('z', 2500)) on conflict do nothing", k.table, one),
			fmt.Sprintf("delete from %[1]s where row(%[2]s) = row(%[3]s); update %[1]s set (%[2]s) = row(%[3]s) where row(%[2]s) = row(%[4]s)",
				k.table, k.key, other, one),
		}[rng.IntN(5)]
		if rng.IntN(400) == 0 {
			sql = "truncate " + k.table
		}
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err == nil {
			made++
		} else if ctx.Err() == nil && !strings.Contains(err.Error(), "duplicate") && !strings.Contains(err.Error(), "deadlock") && !strings.Contains(err.Error(), "replica identity") {
			panic(err)
		}
	}
	return made
}
