package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestAddsWhole(t *testing.T) {
	for version, want := range map[int]bool{
		14_00_00: false, 14_00_17: false, 14_00_18: true, 15_00_12: false, 15_00_13: true, 16_00_08: false, 16_00_09: true,
		17_00_04: false, 17_00_05: true, 17_00_06: true, 18_00_00: true, 19_00_00: true,
	} {
		require.Equal(t, want, pipeline.AddsWhole(version), version)
	}
}

// TestAddedTableBeginsTheStreamAnew: on a server that forgets tables, nothing of an added one
// is copied before the stream has begun anew, behind its writers; and once is enough, also
// where the sidecar ends before that.
func TestAddedTableBeginsTheStreamAnew(t *testing.T) {
	for _, ended := range []bool{false, true} {
		t.Run(map[bool]string{false: "running", true: "ended"}[ended], func(t *testing.T) {
			db := pgtest.Shared(t, 17).Database(t)
			db.Exec(t, "create table a(id int primary key, v text)", "create table b(id int primary key, n int)", "create table c(n int)",
				"insert into a select i, 'a' from generate_series(1, 300) i", "insert into b select i, 0 from generate_series(1, 300) i",
				"insert into c select i from generate_series(1, 300) i", "create publication p for table a")
			sink := sinktest.NewMemory()
			o := beside(db, sink)
			o.Forgets()
			o.GuardInterval = 20 * time.Millisecond
			r := start(t, o)
			moving := func(done func() bool) {
				require.Eventually(t, func() bool {
					db.Exec(t, "update a set v = v || 'x' where id = 1") // an idle stream would come to a position only now and then
					return done()
				}, patience, 10*time.Millisecond, "%s", r.Status().Reason)
			}
			moving(func() bool { return completions(sink) == 1 })
			require.EqualValues(t, 2, r.Status().Sessions, "a table may have come between the slot and the first look")

			writer := db.Conn(t)
			_, err := writer.Exec(t.Context(), "begin; update b set n = 1 where id <= 3")
			require.NoError(t, err)
			db.Exec(t, "alter publication p add table b, c")
			moving(func() bool { return strings.Contains(waiting(r), "public.b") })
			if ended {
				r.cancel()
				require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
				r = start(t, o)
				moving(func() bool { return strings.Contains(waiting(r), "public.b") })
			}
			moving(func() bool { return attached(sink, "c") })
			for _, u := range sink.SnapshotUnits() {
				require.False(t, u.Relation != nil && u.Relation.Name == "b", "a writer of b is open")
			}
			before := r.Status().Sessions
			_, err = writer.Exec(t.Context(), "update b set id = 1000 where id = 4; commit")
			require.NoError(t, err)
			moving(func() bool { return completions(sink) == 2 })
			require.Equal(t, before+1, r.Status().Sessions)
			alike(t, r, db, sink, "a", "b", "c")
		})
	}
}

func waiting(r *running) string {
	if c := r.Status().Copy; c != nil {
		return c.Waiting
	}
	return ""
}

// attached reports that the copy of a table is whole.
func attached(sink *sinktest.Memory, table string) bool {
	for _, u := range sink.SnapshotUnits() {
		if u.Last && u.Relation.Name == table {
			return true
		}
	}
	return false
}
