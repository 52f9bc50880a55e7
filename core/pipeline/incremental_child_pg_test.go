package pipeline_test

import (
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestParentIsCopiedBesideALockedChild: a child by inheritance is a table of its own; who
// holds it does not hold up the copy of its parent.
func TestParentIsCopiedBesideALockedChild(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table a(id int primary key)", "insert into a select generate_series(1, 10)", "create table child() inherits (a)",
		"insert into child values (99)", "create publication p for table only a")
	holder := db.Conn(t)
	sink := sinktest.NewMemory()
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if !u.First {
			return nil
		}
		_, err := holder.Exec(t.Context(), "begin; lock table child in access exclusive mode")
		return err
	}
	r := start(t, beside(db, sink))
	copied(t, r, sink)
	if _, err := holder.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if rows := sink.Rows("public", "a"); len(rows) != 10 {
		t.Fatalf("%d rows", len(rows))
	}
}
