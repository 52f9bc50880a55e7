package pipeline_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// atUnit does something when the n-th unit with rows of a table is durable.
func atUnit(table string, n int, do func()) func(*core.SnapshotUnit) error {
	return func(u *core.SnapshotUnit) error {
		if u.Relation != nil && u.Relation.Name == table && len(u.Rows) > 0 {
			if n--; n == 0 {
				do()
			}
		}
		return nil
	}
}

// TestTablesThatGoWhileCopied: in the middle of its copy a table is given another name,
// moved to another schema, dropped, or taken out of the publication, with a key and without.
// The copy of the others is not touched; one that is there under another name is whole there.
func TestTablesThatGoWhileCopied(t *testing.T) {
	for name, one := range map[string]struct{ key, does, then string }{
		"renamed":          {"primary key", "alter table a rename to a2", "a2"},
		"renamed, no key":  {"", "alter table a rename to a2", ""}, // it waits for the copy, which is of a
		"dropped":          {"primary key", "drop table a", ""},
		"dropped, no key":  {"", "drop table a", ""},
		"left":             {"primary key", "alter publication p drop table a", ""},
		"dropped and made": {"primary key", "drop table a; create table a(id int primary key, v text); alter publication p add table a; insert into a values (7, 'made')", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Shared(t, 17).Database(t)
			db.Exec(t, "create table a(id int "+one.key+", v text)", "insert into a select i, 'a' || i from generate_series(1, 500) i",
				"create table b(id int primary key, v text)", "insert into b select i, 'b' || i from generate_series(1, 500) i", "create publication p for table a, b")
			sink := sinktest.NewMemory()
			o := beside(db, sink)
			o.Copy.ChunkRows, o.GuardInterval = 50, 20*time.Millisecond
			changed := make(chan error, 1)
			other := db.Conn(t)
			sink.AfterSnapshot = atUnit("a", 3, func() {
				go func() { // it may have to wait for whoever reads the table
					_, err := other.Exec(t.Context(), one.does)
					changed <- err
				}()
			})
			r := start(t, o)
			require.NoError(t, <-changed)
			copied(t, r, sink)
			db.Exec(t, "insert into b values (1000, 'streamed')")
			alike(t, r, db, sink, "b")
			if name == "renamed, no key" {
				require.Len(t, held(sink, "a"), 500)
			}
			if one.then != "" {
				db.Exec(t, "insert into "+one.then+" values (1001, 'streamed')")
				alike(t, r, db, sink, one.then)
			}
			r.Drain()
			require.NoError(t, r.wait(t))
		})
	}
}

// TestCopyBesideIsTakenOver: of two sidecars one copies and the other waits, and reads
// nothing; when the first is gone the second goes on from its token.
func TestCopyBesideIsTakenOver(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := filled(t, pg.Major)
		sink := sinktest.NewMemory()
		var gate atomic.Bool // a sink that is not ready holds the copy, and answers all the same
		units := 0
		sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
			if units++; units > 6 && !gate.Load() {
				return &core.Refusal{Reason: core.ReasonNotReady, RetryAfter: 10 * time.Millisecond}
			}
			return nil
		}
		o := beside(db, sink)
		o.Copy.ChunkRows = 50
		first := start(t, o)
		require.Eventually(t, func() bool { return len(sink.SnapshotUnits()) == 6 }, patience, time.Millisecond)
		second := start(t, o)
		require.Eventually(t, func() bool { return second.Status().State == pipeline.StateStandby }, patience, 2*time.Millisecond)
		first.cancel()
		require.ErrorIs(t, first.wait(t), pipeline.ErrAbort)
		require.Len(t, sink.SnapshotUnits(), 6)
		gate.Store(true)
		copied(t, second, sink)
		db.Exec(t, "update a set v = 'y' where id % 7 = 0")
		alike(t, second, db, sink, "a")
		clears := 0
		for _, u := range sink.SnapshotUnits() {
			require.EqualValues(t, 1, u.Generation, "another run")
			if u.First && u.Relation.Name == "a" {
				clears++
			}
		}
		require.Equal(t, 1, clears, "it did not go on from the token")
		second.Drain()
		require.NoError(t, second.wait(t))
	})
}
