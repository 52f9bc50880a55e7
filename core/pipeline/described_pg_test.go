package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestKeyOfATableThatWasJustMade: a transaction that makes a table and fills it is streamed
// before it is visible, here for as long as a synchronous standby is away. Its key is known.
func TestKeyOfATableThatWasJustMade(t *testing.T) {
	db := pgtest.Own(t, 17, pgembed.Options{}).Database(t)
	db.Exec(t, "create table first(id int primary key)", "create publication p for all tables")
	sink := sinktest.NewMemory()
	r := start(t, options(db, slot(db), sink))
	r.streaming(t)
	waits := func(what string) func() bool {
		conn := db.Conn(t)
		return func() bool {
			var there bool
			err := conn.QueryRow(t.Context(), "select exists (select from pg_stat_activity where pid <> pg_backend_pid() and "+what+")").Scan(&there)
			return err == nil && there
		}
	}
	held, asked := waits("wait_event = 'SyncRep'"), waits("query like '%transactionid = ''%'")
	release := []string{"alter system reset synchronous_standby_names", "select pg_reload_conf()"}
	t.Cleanup(func() { db.Exec(t, release...) })
	const tries = 10 // the standby may be away for longer than is waited
	for n := range tries {
		db.Exec(t, "alter system set synchronous_standby_names = 'nobody'", "select pg_reload_conf()")
		maker, over := db.Conn(t), make(chan error, 1)
		go func() {
			_, err := maker.Exec(t.Context(), fmt.Sprintf("begin; create table made%d(id int primary key); insert into made%d values (1); commit", n, n))
			over <- err
		}()
		require.Eventually(t, held, patience, time.Millisecond)
		require.Eventually(t, asked, patience, time.Millisecond)
		db.Exec(t, release...)
		require.NoError(t, <-over)
		require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == n+1 }))
		relation := sink.Transactions()[n].Changes[0].Relation
		if relation.Columns[0].PrimaryKeyPosition == 1 {
			return
		}
	}
	t.Fatal("never")
}
