package pipeline_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestCopyThatHoldsTheStream: a table without a key is written while it is copied, and its
// copy takes too long. It is put off, the stream goes on without the table, and a later copy
// has each row once.
func TestCopyThatHoldsTheStream(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key)", "create table b(v text)", "insert into b select 'v' || i from generate_series(1, 1000) i",
		"create publication p for table a, b")
	sink := sinktest.NewMemory()
	var slow atomic.Bool
	slow.Store(true)
	pieces := 0
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if u.Relation != nil && u.Relation.Name == "b" && slow.Load() {
			pieces++
			db.Exec(t, fmt.Sprintf("insert into b values ('while %d')", pieces))
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}
	o := beside(db, sink)
	o.Copy.ChunkRows, o.Copy.MaxHold = 20, 200*time.Millisecond
	r := start(t, o)
	waiting := func(words string) func() bool {
		return func() bool { c := r.Status().Copy; return c != nil && strings.Contains(c.Waiting, words) }
	}
	require.Eventually(t, waiting("the stream waits for the copy of public.b"), patience, 5*time.Millisecond)
	require.Eventually(t, waiting("public.b, which has no key, was put off"), patience, 5*time.Millisecond)
	db.Exec(t, "insert into a values (1)")
	require.Eventually(t, func() bool { return len(held(sink, "a")) == 1 }, patience, 5*time.Millisecond, "the stream stands still")
	require.NotEqual(t, "done", tableState(r, "b"))
	slow.Store(false)
	copied(t, r, sink)
	require.Eventually(t, func() bool { return r.Status().Copy.Waiting == "" }, patience, 5*time.Millisecond)
	db.Exec(t, "insert into b values ('behind')")
	alike(t, r, db, sink, "a", "b")
}
