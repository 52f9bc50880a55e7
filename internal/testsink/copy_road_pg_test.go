package testsink_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

// copies waits until the copy is complete, and returns what its units were.
func (r *road) copies() judge.CopyReport {
	r.Helper()
	var report judge.CopyReport
	r.until("the copy is complete", func() bool {
		var err error
		report, err = judge.Copies(r.Context(), r.sink.DSN, r.slot)
		require.NoError(r, err)
		n := len(report.Units)
		return report.Completions > 0 || n > 0 && report.Units[n-1].Complete
	})
	return report
}

// Rows of every shape of table that were there before the sidecar, and the same story told
// again while it copies, with the sidecar lost in between.
func TestMirrorOfACopy(t *testing.T) {
	const again = `TRUNCATE plain, pair, toasted, keyless, fullkey, byindex, bigkey, gen, "odd ""s"."a.b ""c"`
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		for name, kind := range map[string]checkpoint.Snapshot{"initial": checkpoint.SnapshotInitial, "incremental": checkpoint.SnapshotIncremental} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRoad(t, pg, testsink.Config{Kind: testsink.KindBoth}, shapes...)
				r.options.GoForwardOnly, r.options.Snapshot = false, kind
				r.options.Copy.ChunkRows = 100
				r.serve()
				last := r.tell(1)
				r.stream()
				r.source.Exec(t, again)
				last = r.tell(last + 1)
				r.crash()
				r.stream()
				r.source.Exec(t, again)
				last = r.tell(last + 1)
				report := r.copies()
				r.arrived(1, last)
				r.mirrored(len(shapes)-3, 1500)
				for _, table := range []string{"plain", "keyless", "onlyinsert", "bare", `odd "s.a.b "c`} {
					if table != `odd "s.a.b "c` {
						table = "public." + table
					}
					require.NotEmpty(t, report.Of(table), table)
				}
				log, err := judge.Log(t.Context(), r.sink.DSN, r.slot)
				require.NoError(t, err)
				if kind == checkpoint.SnapshotInitial {
					require.NoError(t, log.Once())
				}
				// Beside the stream a table without a key is left out of it until it is copied.
				require.Empty(t, log.Repeats)
				r.drain()
			})
		}
	})
}

// Every row of a source that only inserts, under load while the copy begins, stands in an
// append log exactly once, copied or streamed.
func TestLogOfACopy(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		r := newRoad(t, pg, testsink.Config{Kind: testsink.KindLog}, `CREATE TABLE ins (id serial PRIMARY KEY, w int, v text)`)
		r.options.GoForwardOnly, r.options.Snapshot = false, checkpoint.SnapshotInitial
		r.serve()
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for w := range 4 {
			conn := r.source.Conn(t)
			writers.Go(func() {
				for ctx.Err() == nil {
					_, _ = conn.Exec(context.WithoutCancel(ctx), `INSERT INTO ins (w, v) SELECT $1, md5(i::text) FROM generate_series(1, 3) i`, w)
				}
			})
		}
		r.stream()
		r.tx(1, 1, `INSERT INTO ins (w) VALUES (9)`)
		stop()
		writers.Wait()
		r.tx(2, 0)
		r.arrived(1, 2)
		report, err := judge.Appended(t.Context(), r.source.DSN, r.sink.DSN, r.slot, "p")
		require.NoError(t, err)
		require.NoError(t, report.Err())
		require.Equal(t, 2, report.Tables)
		require.Equal(t, report.Rows, report.Copied+report.Streamed)
		require.Positive(t, report.Streamed)
		r.Logf("%d rows: %d copied, %d streamed", report.Rows, report.Copied, report.Streamed)
		r.drain()
		r.sink.Exec(t, `DELETE FROM testsink.log WHERE ctid = (SELECT min(ctid) FROM testsink.log WHERE relation = 'public.ins')`,
			`INSERT INTO testsink.log SELECT * FROM testsink.log WHERE ctid = (SELECT max(ctid) FROM testsink.log WHERE relation = 'public.ins')`)
		report, err = judge.Appended(t.Context(), r.source.DSN, r.sink.DSN, r.slot, "p")
		require.NoError(t, err)
		require.ErrorContains(t, report.Err(), "1 rows are missing, 1 are foreign or repeated")
	})
}
