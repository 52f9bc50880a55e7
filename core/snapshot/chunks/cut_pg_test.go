package chunks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestCutRanges: the pieces of a range have as many rows as was asked for, and all of its rows
// once, whatever sorts the key and whoever reads it.
func TestCutRanges(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create extension citext schema public", "create table a(a public.citext, b int, v text, primary key (a, b))",
			"insert into a select case when i % 2 = 0 then 'K' else 'k' end || i % 7, i, 'x' from generate_series(1, 1000) i", "create publication p for table a")
		r := reading(t, db, columnReader(t, db, "a, b, v) on a"))
		m := published(t, r, "a")
		cut := func(span incremental.Range, pieces int) []incremental.Key {
			t.Helper()
			found, err := r.Do(t.Context(), incremental.Job{Kind: incremental.JobCut, Table: m, Range: span, Rows: 100, Pieces: pieces}, nil)
			require.NoError(t, err)
			return found.Cut
		}
		first := cut(incremental.Range{}, 3)
		require.Len(t, first, 3)
		rest := cut(incremental.Range{Lo: first[2]}, 20)
		require.Len(t, rest, 7, "the last piece is empty")
		require.Empty(t, cut(incremental.Range{Lo: rest[6]}, 20))
		require.Len(t, cut(incremental.Range{Lo: first[0], Hi: first[2]}, 20), 2)
		var lo incremental.Key
		for _, hi := range append(first, rest...) {
			found, err := r.Do(t.Context(), incremental.Job{Kind: incremental.JobChunk, Table: m, Range: incremental.Range{Lo: lo, Hi: hi}, Rows: 1000, Bytes: 1 << 20}, nil)
			require.NoError(t, err)
			require.Len(t, found.Read.Rows, 100)
			lo = hi
		}
		db.Exec(t, "alter table a drop constraint a_pkey")
		_, err := r.Do(t.Context(), incremental.Job{Kind: incremental.JobCut, Table: m, Rows: 100, Pieces: 3}, nil)
		require.ErrorIs(t, err, ErrAgain, "it is sorted in another way now")
	})
}

// TestAway: a chunk tells a table that is not published from one that cannot be read now.
func TestAway(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		db.Exec(t, "create table a(id int primary key)", "create table b(id int primary key)", "create publication p for table a, b")
		r := reading(t, db, "postgres")
		job := incremental.Job{Kind: incremental.JobChunk, Table: published(t, r, "a"), Rows: 10, Bytes: 1 << 20}
		db.Exec(t, "alter publication p drop table a")
		for range 2 {
			found, err := r.Do(t.Context(), job, nil)
			require.NoError(t, err)
			require.True(t, found.Read.Away)
		}
		db.Exec(t, "alter publication p add table a")
		found, err := r.Do(t.Context(), job, nil)
		require.NoError(t, err)
		require.False(t, found.Read.Away)
	})
}
