package testsink_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

// TestCopyAgainAfterAnInitialCopy: an initial copy is generation 1, as its token says. Copies
// that are asked for later are of higher generations, over restarts too, so that their sweep
// removes what the first copy brought and the source no longer has, and nothing that it has.
func TestCopyAgainAfterAnInitialCopy(t *testing.T) {
	pg := pgtest.Shared(t, 17)
	for name, lib := range map[string]bool{"sink": false, "store": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoad(t, pg, testsink.Config{Kind: testsink.KindMirror, Lib: lib}, "CREATE TABLE plain (id int PRIMARY KEY, v text)",
				"INSERT INTO plain SELECT i, 'v' FROM generate_series(1, 500) i")
			r.options.GoForwardOnly, r.options.Snapshot = false, checkpoint.SnapshotInitial
			r.serve()
			r.stream()
			r.tx(1, 1, "INSERT INTO plain VALUES (1000, 'streamed')")
			r.arrived(1, 1)
			r.drain()

			r.options.Snapshot, r.options.Copy.ChunkRows = checkpoint.SnapshotIncremental, 100
			for run := range 2 {
				r.stream()
				n := 2 + 2*run
				r.source.Exec(t, "ALTER PUBLICATION p SET (publish = 'insert')") // what is deleted now is not told
				r.source.Exec(t, "DELETE FROM plain WHERE id % 100 = "+[]string{"7", "8"}[run])
				r.source.Exec(t, "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')")
				r.tx(n, 1, "UPDATE plain SET v = 'touched' WHERE id % 50 = 3")
				r.arrived(1, n)
				report, err := judge.Mirror(t.Context(), r.source.DSN, r.sink.DSN, "p")
				require.NoError(t, err)
				require.Error(t, report.Err(), "the sink has rows that the source has not")
				var names []string
				r.until("a copy is asked for", func() bool {
					names, err = r.sidecar.RequestCopy(t.Context(), []string{"plain"}, false)
					return err == nil
				})
				require.Equal(t, []string{"public.plain"}, names)
				r.until("it is complete", func() bool {
					copies, err := judge.Copies(t.Context(), r.sink.DSN, r.slot)
					require.NoError(t, err)
					last := copies.Units[len(copies.Units)-1]
					return last.Complete && last.Generation == 2+run
				})
				r.tx(n+1, 0)
				r.arrived(1, n+1)
				r.mirrored(1, 490)
				r.drain()
			}
			copies, err := judge.Copies(t.Context(), r.sink.DSN, r.slot)
			require.NoError(t, err)
			generation := 1
			for _, u := range copies.Of("public.plain") {
				require.GreaterOrEqual(t, u.Generation, generation)
				generation = u.Generation
				require.Equal(t, u.Last && u.Generation > 1, u.Sweep)
				require.False(t, u.First && u.Generation > 1, "readers never see an empty table")
			}
			require.Equal(t, 3, generation)
		})
	}
}
