package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/filestore"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// filled is a database with a table that has a key and one that has none.
func filled(t *testing.T, major int) *pgtest.DB {
	t.Helper()
	db := pgtest.Shared(t, major).Database(t)
	db.Exec(t, "create table a(id int primary key, v text)", "insert into a select i, repeat('x', 100) from generate_series(1, 500) i",
		"create table c(v text)", "insert into c select 'same' from generate_series(1, 500)", "create publication p for all tables")
	return db
}

var smallUnits = core.SinkLimits{RequestBytes: 20_000, PreferredBytes: 4_000}

func halted(t *testing.T, r *running, code core.HaltCode) *core.Halt {
	t.Helper()
	halt, ok := core.AsHalt(r.wait(t))
	require.True(t, ok, "it did not halt")
	require.Equal(t, code, halt.Code, "%v", halt)
	return halt
}

func slots(t *testing.T, db *pgtest.DB) (n int) {
	t.Helper()
	require.NoError(t, db.Conn(t).QueryRow(t.Context(), "select count(*) from pg_replication_slots where database = current_database()").Scan(&n))
	return n
}

// TestCopyRepeatsATable: a unit whose answer is lost begins its table again, under a new
// claim, on the same snapshot; nothing is there twice.
func TestCopyRepeatsATable(t *testing.T) {
	db := filled(t, 17)
	for name, class := range map[string]core.Class{"away": core.ClassAway, "unknown": core.ClassUnknown, "suspicious": core.ClassSuspicious} {
		t.Run(name, func(t *testing.T) {
			sink := sinktest.NewMemory()
			sink.Caps.Limits = smallUnits
			units := map[string]int{}
			sink.AfterSnapshot = func(u *core.SnapshotUnit) error {
				if u.Relation == nil {
					return nil
				}
				if units[u.Relation.Name]++; units[u.Relation.Name] == 2 {
					return &core.SinkError{Class: class, Call: "HandleSnapshot"}
				}
				return nil
			}
			r := start(t, initial(db, sink))
			r.streaming(t)
			alike(t, r, db, sink, "a", "c")
			require.GreaterOrEqual(t, sink.Stored().Epoch, uint64(4), "two claims of the copy, one of the stream, one of the start")
			restarts := 0
			for _, table := range r.Status().Copy.Tables {
				restarts += table.Restarts
			}
			require.Equal(t, 2, restarts)
			require.EqualValues(t, 1000, r.Status().Copy.Rows)
			r.Drain()
			require.NoError(t, r.wait(t))
		})
	}
}

// TestCopyDoubtIsBounded: the same unit without an answer halts in the end.
func TestCopyDoubtIsBounded(t *testing.T) {
	db := filled(t, 17)
	for class, want := range map[core.Class]core.HaltCode{core.ClassUnknown: core.HaltSinkUnknown, core.ClassSuspicious: core.HaltSinkFailed} {
		sink := sinktest.NewMemory()
		sink.BeforeSnapshot = func(*core.SnapshotUnit) error { return &core.SinkError{Class: class, Call: "HandleSnapshot"} }
		halted(t, start(t, initial(db, sink)), want)
		require.Zero(t, sink.Stored().Position)
	}
}

// TestCopySplitsWhatIsTooBig down to single rows.
func TestCopySplitsWhatIsTooBig(t *testing.T) {
	db := filled(t, 17)
	sink := sinktest.NewMemory()
	most := 7
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if len(u.Rows) > most {
			return &core.SinkError{Class: core.ClassTooBig, Call: "HandleSnapshot"}
		}
		return nil
	}
	r := start(t, initial(db, sink))
	r.streaming(t)
	alike(t, r, db, sink, "a", "c")
	requireUnits(t, sink.SnapshotUnits(), map[string]core.SnapshotReset{"a": core.ResetSnapshotRows, "c": core.ResetAll})
	most = 0
	fresh := sinktest.NewMemory()
	fresh.BeforeSnapshot = sink.BeforeSnapshot
	other := start(t, initial(db, fresh))
	require.Contains(t, []string{"public.a", "public.c"}, halted(t, other, core.HaltValueTooLarge).Relation)
}

// TestCopyRowAboveTheLimit halts with the table, the size and the limit, and no value.
func TestCopyRowAboveTheLimit(t *testing.T) {
	db := filled(t, 17)
	db.Exec(t, "insert into a values (0, repeat('secret', 10000))")
	sink := sinktest.NewMemory()
	sink.Caps.Limits = smallUnits
	halt := halted(t, start(t, initial(db, sink)), core.HaltValueTooLarge)
	require.Equal(t, "public.a", halt.Relation)
	require.Contains(t, halt.Detail, "a row of 600")
	require.NotContains(t, halt.Error(), "secret")
}

// TestCopyWithAStore hands the stream over by the row of our own, and an instance that is
// another one in the middle gets the unit again.
func TestCopyWithAStore(t *testing.T) {
	db := filled(t, 17)
	store, err := filestore.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	sink := sinktest.NewLib()
	sink.Caps.Kind, sink.Caps.Limits = core.StateMirror, smallUnits
	n := 0
	sink.BeforeSnapshot = func(*core.SnapshotUnit) error {
		if n++; n == 5 {
			return &core.Refusal{Reason: core.ReasonInstanceChanged}
		}
		return nil
	}
	sink.AfterSnapshot = func(*core.SnapshotUnit) error {
		if n == 9 {
			n++
			return context.DeadlineExceeded
		}
		return nil
	}
	o := initial(db, sink)
	o.Store = store
	r := start(t, o)
	r.streaming(t)
	alike(t, r, db, sink, "a", "c")
	row, found, err := store.Read(t.Context(), o.Source.Slot)
	require.NoError(t, err)
	require.True(t, found)
	require.GreaterOrEqual(t, row.Position, sink.SnapshotUnits()[0].LSN)
	db.Exec(t, "delete from a where id < 10")
	alike(t, r, db, sink, "a")
	r.Drain()
	require.NoError(t, r.wait(t))
}

// TestCopyNeeds: what the sink must have, and what excludes a copy, is found before the
// source is touched.
func TestCopyNeeds(t *testing.T) {
	db := filled(t, 17)
	for _, lacking := range []core.Capability{core.CapSnapshot, core.CapSnapshotComplete} {
		sink := sinktest.NewMemory()
		sink.Caps.Set &^= core.NewCapabilitySet(lacking)
		require.Contains(t, halted(t, start(t, initial(db, sink)), core.HaltSnapshotUnsupported).Detail, lacking.String())
	}
	for _, spoil := range []func(*pipeline.Options){
		func(o *pipeline.Options) { o.GoForwardOnly = true }, func(o *pipeline.Options) { o.AdoptSlot = true },
	} {
		o := initial(db, sinktest.NewMemory())
		spoil(&o)
		_, err := pipeline.New(o)
		halt, ok := core.AsHalt(err)
		require.True(t, ok)
		require.Equal(t, core.HaltConflictingStartMode, halt.Code)
	}
	db.Exec(t, "create table other(a int, b int, c int)")
	if db.Server.Major >= 15 {
		db.Exec(t, "create publication q for table other (a, b)")
		o := initial(db, sinktest.NewMemory())
		o.Source.Publications = []string{"p", "q"}
		halted(t, start(t, o), core.HaltPublicationConflict)
	}
	require.Zero(t, slots(t, db))
}

// TestCopyLimits end a copy that the source cannot bear.
func TestCopyLimits(t *testing.T) {
	db := filled(t, 17)
	for name, limit := range map[string]pipeline.Copying{"xmin": {MaxXminAge: 3}, "held": {MaxHeld: 1 << 16}} {
		t.Run(name, func(t *testing.T) {
			sink := sinktest.NewMemory()
			reached, gate := make(chan struct{}), make(chan struct{})
			first := true
			sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
				if first && u.Relation != nil {
					first = false
					close(reached)
					<-gate
				}
				return nil
			}
			o := initial(db, sink)
			o.Copy, o.GuardInterval = limit, 20*time.Millisecond
			r := start(t, o)
			<-reached
			for range 5 {
				db.Exec(t, "insert into c select repeat('y', 100) from generate_series(1, 500)")
			}
			require.Eventually(t, func() bool {
				c := r.Status().Copy
				return limit.MaxXminAge > 0 && c.XminAge > limit.MaxXminAge || limit.MaxHeld > 0 && c.HeldBytes > limit.MaxHeld
			}, patience, 5*time.Millisecond)
			time.AfterFunc(time.Second, func() { close(gate) }) // the look that found it ends
			halt := halted(t, r, core.HaltSnapshotLimit)
			require.Contains(t, halt.Detail, map[string]string{"xmin": "copy.max_xmin_age", "held": "copy.max_held"}[name])
			require.Zero(t, sink.Stored().Position)
		})
	}
}

// TestCopyAndLocks: whoever changes a table is waited for and named; whoever wants to
// change one while it is copied waits, and stands in nobody's way.
func TestCopyAndLocks(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := filled(t, pg.Major)
		holder := db.Conn(t)
		_, err := holder.Exec(t.Context(), "begin; lock table a in access exclusive mode")
		require.NoError(t, err)
		sink := sinktest.NewMemory()
		sink.Caps.Limits = smallUnits
		reached, gate := make(chan struct{}), make(chan struct{})
		first := true
		sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
			if first && u.Relation != nil {
				first = false
				close(reached)
				<-gate
			}
			return nil
		}
		o := initial(db, sink)
		o.Copy = pipeline.Copying{Connections: 3, PartPages: 1}
		r := start(t, o)
		require.Eventually(t, func() bool {
			c := r.Status().Copy
			return c != nil && strings.Contains(c.Waiting, "public.a")
		}, patience, 5*time.Millisecond)
		_, err = holder.Exec(t.Context(), "commit")
		require.NoError(t, err)
		<-reached
		altered := make(chan error, 1)
		go func() {
			_, err := holder.Exec(context.WithoutCancel(t.Context()), "alter table a add column w int")
			altered <- err
		}()
		require.Eventually(t, func() bool {
			var waiting int
			_ = db.Conn(t).QueryRow(t.Context(), "select count(*) from pg_locks where not granted and mode = 'AccessExclusiveLock'").Scan(&waiting)
			return waiting > 0
		}, patience, 5*time.Millisecond)
		close(gate)
		r.streaming(t)
		require.NoError(t, <-altered)
		require.EqualValues(t, 1000, r.Status().Copy.Rows)
		r.Drain()
		require.NoError(t, r.wait(t))
	})
}

// TestCopyKeepsOthersWaiting: a second sidecar is a standby while the first one copies,
// although slot and checkpoint contradict each other meanwhile.
func TestCopyKeepsOthersWaiting(t *testing.T) {
	db := filled(t, 17)
	sink := sinktest.NewMemory()
	sink.Caps.Limits = smallUnits
	reached, gate := make(chan struct{}), make(chan struct{})
	first := true
	sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if first && u.Relation != nil {
			first = false
			close(reached)
			<-gate
		}
		return nil
	}
	o := initial(db, sink)
	o.SnapshotRedo = true
	one := start(t, o)
	<-reached
	close(gate)
	two := start(t, o)
	streams := func(r *running) bool { return r.Status().State == pipeline.StateStreaming }
	require.Eventually(t, func() bool { return streams(one) || streams(two) }, patience, time.Millisecond)
	if streams(two) { // between the copy and the stream nobody holds the slot
		one, two = two, one
	}
	require.Eventually(t, func() bool { return two.Status().State == pipeline.StateStandby }, patience, time.Millisecond)
	alike(t, one, db, sink, "a", "c")
	require.Len(t, sink.Completed(), 1)
	one.Drain()
	require.NoError(t, one.wait(t))
	two.streaming(t)
	require.Len(t, sink.Completed(), 1)
}

// TestRedoIsOnce: the flag drops one slot, not one after the other.
func TestRedoIsOnce(t *testing.T) {
	db := filled(t, 17)
	sink := sinktest.NewMemory()
	o := initial(db, sink)
	rows := func(f func() error) func(*core.SnapshotUnit) error {
		return func(u *core.SnapshotUnit) error {
			if u.Relation == nil {
				return nil
			}
			return f()
		}
	}
	sink.BeforeSnapshot = rows(func() error { return &core.Refusal{Reason: core.ReasonUnitRejected} })
	halted(t, start(t, o), core.HaltSinkRejected)
	require.Equal(t, 1, slots(t, db))
	// The copy breaks at the source: the session goes on, and finds its own leftover.
	sink.BeforeSnapshot = rows(func() error {
		db.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		time.Sleep(time.Second) // many looks of the guard
		return nil
	})
	o.SnapshotRedo, o.GuardInterval = true, 10*time.Millisecond
	halted(t, start(t, o), core.HaltSnapshotIncomplete)
	require.Equal(t, 1, slots(t, db))
	sink.BeforeSnapshot = nil
	r := start(t, o)
	r.streaming(t)
	alike(t, r, db, sink, "a", "c")
}

// TestCopyOriginIsVetoed leaves no row and no position.
func TestCopyOriginIsVetoed(t *testing.T) {
	db := filled(t, 17)
	sink := originVeto{sinktest.NewMemory()}
	sink.Caps.Set |= core.NewCapabilitySet(core.CapSlotOrigin)
	halted(t, start(t, initial(db, sink)), core.HaltOriginRejected)
	require.Len(t, sink.SnapshotUnits(), 1)
	require.Nil(t, sink.SnapshotUnits()[0].Relation)
}

type originVeto struct{ *sinktest.Memory }

func (originVeto) HandleSlotOrigin(_ context.Context, o core.SlotOrigin) error {
	if o.Origin == 0 || o.Reused {
		return errors.New("no origin")
	}
	return &core.Refusal{Reason: core.ReasonOriginRejected}
}
