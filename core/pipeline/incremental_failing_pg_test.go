package pipeline_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestCopyThatCannotRead: the stream is there, and the server has no connection for the copy.
// That is shown, and once there is one the copy is made: the first look is made again too.
func TestCopyThatCannotRead(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	role := "c_" + db.Name
	db.Exec(t, "create role "+role+" login replication connection limit 2", "create table a(id int primary key)",
		"insert into a select generate_series(1, 10)", "grant select on a to "+role, "create publication p for table a")
	t.Cleanup(func() { db.Exec(t, "drop owned by "+role, "drop role "+role) })
	sink := sinktest.NewMemory()
	armed := false
	sink.BeforeSnapshot = func(*core.SnapshotUnit) error {
		if !armed { // the stream's own look at the catalog has its connection
			armed = true
			db.Exec(t, "alter role "+role+" connection limit 1")
		}
		return nil
	}
	o := beside(db, sink)
	o.Copy.Connections = 1
	dsn, err := url.Parse(db.DSN)
	require.NoError(t, err)
	dsn.User = url.User(role)
	query := dsn.Query()
	query.Del("user")
	dsn.RawQuery = query.Encode()
	o.Source.DSN = dsn.String()
	r := start(t, o)
	require.Eventually(t, func() bool {
		c := r.Status().Copy
		return c != nil && c.Failing != ""
	}, patience, 10*time.Millisecond)
	require.Empty(t, sink.Rows("public", "a"))
	db.Exec(t, "alter role "+role+" connection limit 10")
	copied(t, r, sink)
	alike(t, r, db, sink, "a")
	require.Empty(t, r.Status().Copy.Failing)
	r.Drain()
	require.NoError(t, r.wait(t))
}
