package incremental

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// TestCopyThatIsPutOff: the stream waits for a copy up to a limit, and not for the next one
// before it has gone on for eight times as long, and then sixteen times.
func TestCopyThatIsPutOff(t *testing.T) {
	relation := &core.Relation{OID: 8, Schema: "s", Name: "u", Identity: core.IdentityNothing, Columns: []core.Column{{Name: "v"}}}
	m := Member{OID: 8, Schema: "s", Name: "u", Identity: core.IdentityNothing}
	const limit, xid = time.Minute, 30
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{{Member: m, Status: Pending}}}, Settings{MaxHold: limit}, epoch)
	changes := []core.Change{{Op: core.OpInsert, Relation: relation}}
	now := epoch
	pass := func(d time.Duration) {
		now = now.Add(d)
		r.At(now)
	}
	open := func() uint64 {
		t.Helper()
		job, ok := r.Next()
		require.True(t, ok)
		require.Equal(t, JobLook, job.Kind)
		r.Looked(Look{ID: job.ID, Found: true, Member: m, Relation: relation})
		job, ok = r.Next()
		require.True(t, ok)
		require.Equal(t, JobCopy, job.Kind)
		r.Copying(job.ID, Snapshot{Min: 20, Max: 25}, 100, relation)
		return job.ID
	}
	for try, holds := range []func() bool{
		func() bool { return r.Holds(xid, changes) }, func() bool { return r.HoldsPieces(xid) }, func() bool { return r.Holds(xid, changes) },
	} {
		id := open()
		pass(time.Hour)
		require.True(t, holds())
		table, since := r.Held()
		require.Equal(t, "s.u", table)
		require.Equal(t, now, since, "a copy that nobody waits for takes its time")
		require.Equal(t, now.Add(limit), r.HoldDeadline())
		pass(limit - 1)
		require.True(t, holds())
		require.True(t, r.Copies(id))
		pass(1)
		require.False(t, holds(), "the stream goes on")
		require.False(t, r.Copies(id))
		require.Len(t, r.Strip(xid, 200, append([]core.Change(nil), changes...)), 0, "the next copy has it")
		require.True(t, r.HoldDeadline().IsZero())
		table, _ = r.Held()
		require.Empty(t, table)
		table, until := r.PutOff()
		require.Equal(t, "s.u", table)
		require.Equal(t, now.Add(min(8*limit<<try, time.Hour)), until)
		require.Equal(t, until, r.Deadline())
		pass(until.Sub(now) - 1)
		_, ok := r.Next()
		require.False(t, ok)
		pass(1)
	}
	require.EqualValues(t, 3, r.Counts().PutOff)

	// The end of a copy is on its way: what it says may be durable already.
	id := open()
	require.True(t, r.Pull())
	r.Piece(id, nil, true)
	require.True(t, r.Holds(xid, changes))
	step := r.Take()
	pass(2 * limit)
	require.True(t, r.Holds(xid, changes))
	require.True(t, r.HoldDeadline().IsZero(), "there is nothing to wake up for")
	stored(t, r, step)
	require.False(t, r.Holds(xid, changes))
	require.Equal(t, Done, r.tables[0].status)
}

// TestCopyThatMayHoldForEver where there is no limit.
func TestCopyThatMayHoldForEver(t *testing.T) {
	m := Member{OID: 8, Schema: "s", Name: "u", Identity: core.IdentityNothing}
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Tables: []Table{{Member: m, Status: Pending}}}, Settings{}, epoch)
	job, _ := r.Next()
	r.Looked(Look{ID: job.ID, Found: true, Member: m})
	job, _ = r.Next()
	r.Copying(job.ID, Snapshot{Min: 20, Max: 25}, 100, nil)
	changes := []core.Change{{Op: core.OpInsert, Relation: &core.Relation{OID: 8}}}
	require.True(t, r.Holds(30, changes))
	require.True(t, r.HoldDeadline().IsZero())
	r.At(epoch.Add(1000 * time.Hour))
	require.True(t, r.Holds(30, changes))
}
