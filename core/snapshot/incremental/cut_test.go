package incremental

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// sizable is a run in the middle of a table of so many rows, for several readers.
func sizable(t *testing.T, readers int, rows int64) (*Run, *core.Relation) {
	t.Helper()
	m := keyedMember(7)
	relation := &core.Relation{OID: 7, Schema: "s", Name: "t7", Identity: core.IdentityDefault, Columns: []core.Column{{Name: "k", Identity: true}, {Name: "v"}}}
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{{Member: m, Status: Copying, Ranges: Everything()}}},
		Settings{Readers: readers, Open: 2 * readers}, epoch)
	job, _ := r.Next()
	m.Extent = Extent{Known: true, Rows: rows, Bytes: 100 * rows}
	r.Looked(Look{ID: job.ID, Found: true, Member: m, Relation: relation})
	return r, relation
}

func ranges(jobs ...Job) (list []Range) {
	for _, job := range jobs {
		list = append(list, Range{Lo: job.Range.Lo, Hi: job.Range.Hi})
	}
	return list
}

// TestLargeTableIsReadSideBySide: keys are found ahead, each reader has a range of its own,
// and a token names every range that is not delivered, whoever has it.
func TestLargeTableIsReadSideBySide(t *testing.T) {
	r, relation := sizable(t, 2, 1_000_000)
	look, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, JobCut, look.Kind)
	require.Equal(t, ChunkRowsDefault, look.Rows)
	require.Equal(t, 4, look.Pieces)
	_, ok = r.Next()
	require.False(t, ok, "nobody reads it while it is cut")
	r.Change(moves(relation, "1", "2"), false)
	require.Equal(t, Everything(), stored(t, r, r.Note()).Tables[0].Ranges)
	require.NotEmpty(t, r.tables[0].repair, "what is cut is not read")

	r.Cut(look.ID, []Key{{"c"}, {"f"}, {"k"}, {"p"}})
	var jobs []Job
	for range 2 {
		job, ok := r.Next()
		require.True(t, ok)
		require.Equal(t, JobChunk, job.Kind)
		jobs = append(jobs, job)
	}
	require.Equal(t, []Range{{Hi: Key{"c"}}, {Lo: Key{"c"}, Hi: Key{"f"}}}, ranges(jobs...))
	third, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, []Range{{Lo: Key{"f"}, Hi: Key{"k"}}}, ranges(third))
	ahead, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, JobCut, ahead.Kind, "there are soon fewer ranges than readers")
	require.Equal(t, []Range{{Lo: Key{"p"}}}, ranges(ahead))

	// The second is there first, and has more rows than were counted.
	row := func(k string) core.Tuple { return core.PackTuple(core.Text(k), core.Text("v")) }
	require.NoError(t, r.Read(Read{ID: jobs[1].ID, Relation: relation, Rows: []core.Tuple{row("d")}, Snapshot: Snapshot{Max: 9}, High: 5, Cut: true}))
	r.Frontier(5)
	state := stored(t, r, r.Take())
	require.ElementsMatch(t, []Range{{Hi: Key{"c"}}, {Lo: Key{"d"}, Hi: Key{"f"}}, {Lo: Key{"f"}, Hi: Key{"k"}}, {Lo: Key{"k"}, Hi: Key{"p"}}, {Lo: Key{"p"}}},
		state.Tables[0].Ranges)
	again := New(*state, Settings{Readers: 2}, epoch)
	require.Len(t, again.tables[0].ranges, 5, "they go on one by one")

	r.Cut(ahead.ID, nil) // few rows are left
	var left []Job
	for job, ok := r.Next(); ok && job.Kind == JobChunk; job, ok = r.Next() {
		left = append(left, job)
	}
	require.ElementsMatch(t, []Range{{Lo: Key{"d"}, Hi: Key{"f"}}, {Lo: Key{"k"}, Hi: Key{"p"}}}, ranges(left...), "as many as may be open")
}

// TestTablesThatAreNotCut: small ones, those of one reader, and those whose cut fails.
func TestTablesThatAreNotCut(t *testing.T) {
	for name, run := range map[string]func() (*Run, *core.Relation){
		"small":      func() (*Run, *core.Relation) { return sizable(t, 2, 3000) },
		"one reader": func() (*Run, *core.Relation) { return sizable(t, 1, 1_000_000) },
	} {
		r, _ := run()
		job, ok := r.Next()
		require.True(t, ok, name)
		require.Equal(t, JobChunk, job.Kind, name)
	}
	r, _ := sizable(t, 2, 1_000_000)
	now := epoch
	for range cutFailuresMost {
		job, ok := r.Next()
		require.True(t, ok)
		require.Equal(t, JobCut, job.Kind)
		r.Failed(job.ID)
		_, ok = r.Next()
		require.False(t, ok, "there is a pause")
		now = now.Add(pauseMax)
		r.At(now)
	}
	job, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, JobChunk, job.Kind)

}

// TestPiecesByTheRowsThatWereRead: what the catalog tells of a table's size is no measure of its
// rows: it counts columns that are not published, and rows that are gone. So pieces have as many
// rows as were asked for until some were read, and then as many as fit into a chunk.
func TestPiecesByTheRowsThatWereRead(t *testing.T) {
	for name, extent := range map[string]Extent{
		"a large column that is not published": {Known: true, Rows: 1_000_000, Bytes: 300_000 * 1_000_000},
		"bloat":                                {Known: true, Rows: 1_000_000, Bytes: 1 << 40},
		"old statistics":                       {Known: true, Rows: 10, Bytes: 1 << 40},
		"no statistics":                        {Known: true, Rows: -1, Bytes: 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			r, relation := sizable(t, 2, 1_000_000)
			r.tables[0].Extent = extent
			cut, ok := r.Next()
			require.True(t, ok)
			require.Equal(t, JobCut, cut.Kind)
			require.Equal(t, ChunkRowsDefault, cut.Rows)
			r.Cut(cut.ID, []Key{{"c"}, {"f"}, {"k"}, {"p"}})
			job, _ := r.Next()
			require.Equal(t, JobChunk, job.Kind)
			var rows []core.Tuple
			for i := range 20 {
				rows = append(rows, core.PackTuple(core.Text(fmt.Sprintf("a%02d", i)), core.Text(strings.Repeat("x", 50_000))))
			}
			require.NoError(t, r.Read(Read{ID: job.ID, Relation: relation, Rows: rows, Snapshot: Snapshot{Max: 9}, High: 5, Cut: true}))
			r.Frontier(5)
			stored(t, r, r.Take())
			for job, ok := r.Next(); ok; job, ok = r.Next() {
				if job.Kind == JobCut {
					require.Equal(t, ChunkBytesDefault/50_000, job.Rows, "rows of 50 kB")
					return
				}
			}
			require.Fail(t, "no more is cut")
		})
	}
}

// TestCutOfBefore: keys that come when the table is another one, or is read again, cut
// nothing.
func TestCutOfBefore(t *testing.T) {
	r, _ := sizable(t, 2, 1_000_000)
	job, _ := r.Next()
	r.Change(&core.Change{Op: core.OpUpdate, Relation: &core.Relation{OID: 7, Identity: core.IdentityNothing}, New: core.PackTuple(core.Value{Kind: core.ValueUnchanged}),
		Old: core.PackTuple(core.Text("1"))}, false) // a hole whose key is not known
	r.Cut(job.ID, []Key{{"c"}})
	require.Equal(t, Everything(), r.tables[0].ranges)
	require.NoError(t, r.Pause(""))
	require.NoError(t, r.Resume(""))
	require.Nil(t, r.tables[0].cutting)
}
