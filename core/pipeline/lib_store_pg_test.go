package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/pgstore"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func (r *running) in(t *testing.T, state pipeline.State) {
	t.Helper()
	require.Eventually(t, func() bool { return r.Status().State == state }, patience, 2*time.Millisecond,
		"state %s, want %s", r.Status().State, state)
}

// away is a scene whose store is a server of its own.
func away(t *testing.T) (*libScene, *pgtest.Server) {
	t.Helper()
	pg := pgtest.Own(t, 16, pgembed.Options{})
	db := pg.Database(t)
	return newLibScene(t, pgtest.Shared(t, 17), func(t *testing.T, _ *pgtest.DB) checkpoint.Store {
		s, err := pgstore.New(pgstore.Options{DSN: db.DSN, CallTimeout: time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}), pg
}

// TestStoreOutage: without its store nothing begins, nothing is told to Postgres, and
// nothing is lost or repeated when the store comes back (L5).
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	s, pg := away(t)
	require.NoError(t, pg.Kill())
	r := s.start(t)
	r.in(t, pipeline.StateStoreAway)
	time.Sleep(300 * time.Millisecond)
	var slots int
	require.NoError(t, s.db.Conn(t).QueryRow(t.Context(), "select count(*) from pg_replication_slots where slot_name = $1", s.slot).Scan(&slots))
	require.Zero(t, slots, "an unreadable checkpoint is not an empty one")
	require.NoError(t, pg.Restart(t.Context()))
	r.streaming(t)
	s.commit(t, 1)
	s.stored(t, 1)

	require.NoError(t, pg.Kill())
	told := confirmed(t, s.db, s.slot)
	s.commit(t, 3)
	s.has(t, 1, 2) // the second waits for its row, the third for the second
	r.in(t, pipeline.StateStoreAway)
	time.Sleep(300 * time.Millisecond)
	require.Equal(t, pipeline.StateStoreAway, r.Status().State, "not ready all the while")
	require.LessOrEqual(t, confirmed(t, s.db, s.slot), max(told, s.end(t, 1)))
	require.NoError(t, pg.Restart(t.Context()))
	s.has(t, 1, 2, 3, 4)
	drained(t, r)
	require.Equal(t, s.row(t).Position, confirmed(t, s.db, s.slot))
}

// TestStoreOutageBound: a store that stays away halts, at the start and in mid-run, and a
// store that can be read and not written is away too.
func TestStoreOutageBound(t *testing.T) {
	t.Parallel()
	refuse := func(checkpoint.Move) error { return errLost }
	t.Run("at the start", func(t *testing.T) {
		s, pg := away(t)
		require.NoError(t, pg.Kill())
		o := s.options()
		o.StoreWait = 500 * time.Millisecond
		halts(t, o, core.HaltStoreUnavailable)
	})
	t.Run("in mid-run", func(t *testing.T) {
		s, pg := away(t)
		o := s.options()
		o.StoreWait = 500 * time.Millisecond
		r := start(t, o)
		r.streaming(t)
		require.NoError(t, pg.Kill())
		s.commit(t, 1)
		ended(t, r, core.HaltStoreUnavailable)
	})
	t.Run("read but not written, at the claim", func(t *testing.T) {
		s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
		s.store.claim = refuse
		o := s.options()
		o.StoreWait = 500 * time.Millisecond
		halts(t, o, core.HaltStoreUnavailable)
	})
	t.Run("read but not written, at the row", func(t *testing.T) {
		s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
		o := s.options()
		o.StoreWait = 500 * time.Millisecond
		r := start(t, o)
		r.streaming(t)
		s.store.taps(func(m checkpoint.Move) error {
			if len(s.sink.Transactions()) == 0 {
				return nil // an idle step before it must not use the time up
			}
			return refuse(m)
		}, nil)
		s.commit(t, 1)
		ended(t, r, core.HaltStoreUnavailable)
		s.has(t, 1)
	})
	t.Run("a drain does not wait for it", func(t *testing.T) {
		s, pg := away(t)
		require.NoError(t, pg.Kill())
		r := s.start(t)
		r.in(t, pipeline.StateStoreAway)
		drained(t, r)
	})
}

// TestStoreLost: the row is gone although the slot exists: never a fresh start (L8).
func TestStoreLost(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	r := s.streams(t)
	s.commit(t, 1)
	s.stored(t, 1)
	s.db.Exec(t, "delete from replicant_checkpoints")
	s.commit(t, 1)
	ended(t, r, core.HaltStoreRegress)
	halts(t, s.options(), core.HaltCheckpointMissing)
	s.db.Exec(t, "drop table replicant_checkpoints")
	halts(t, s.options(), core.HaltStoreInvalid)
	s.store = &tapped{Store: inPostgres(t, s.db)}
	halts(t, s.options(), core.HaltCheckpointMissing)
	s.has(t, 1, 2)
}

// TestStoreRestored: a row from a backup. Above what Postgres was told it is only a
// repeat; below it something was told that the row does not know (L7).
func TestStoreRestored(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	backup := func() {
		s.db.Exec(t, "drop table if exists backup", "create table backup as table replicant_checkpoints")
	}
	restore := func() {
		s.db.Exec(t, "truncate replicant_checkpoints", "insert into replicant_checkpoints table backup")
	}
	o := s.options()
	o.Source.StatusInterval = time.Minute
	o.Source.SenderTimeout = 5 * time.Minute
	r := start(t, o)
	r.streaming(t)
	s.commit(t, 1)
	s.stored(t, 1)
	backup()
	s.commit(t, 2)
	s.stored(t, 3)
	aborted(t, r)
	restore()
	require.LessOrEqual(t, confirmed(t, s.db, s.slot), s.row(t).Position, "the premise")
	r = s.streams(t)
	s.has(t, 1, 2, 3, 2, 3)

	s.stored(t, 3)
	backup()
	s.commit(t, 1)
	s.stored(t, 4)
	drained(t, r)
	require.Greater(t, confirmed(t, s.db, s.slot), s.end(t, 3))
	restore()
	halts(t, s.options(), core.HaltSlotAhead)
	halts(t, s.options(), core.HaltSlotAhead)
	s.has(t, 1, 2, 3, 2, 3, 4)
}

// TestStoreChangedWhileRunning: somebody writes to our row.
func TestStoreChangedWhileRunning(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]core.HaltCode{
		"update replicant_checkpoints set pos = pos + 1":                             core.HaltStoreRegress,
		"update replicant_checkpoints set epoch = epoch + 1":                         core.HaltFenced,
		"update replicant_checkpoints set epoch = epoch + 1, sender_id = '\\x00'":    core.HaltStoreInvalid,
		"update replicant_checkpoints set sender_id = decode(repeat('07',16),'hex')": core.HaltFenced,
	} {
		t.Run(change, func(t *testing.T) {
			s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
			r := s.streams(t)
			s.db.Exec(t, change)
			s.commit(t, 1)
			ended(t, r, want)
			require.LessOrEqual(t, confirmed(t, s.db, s.slot), s.before[0])
		})
	}
}

// TestStoreOfAnotherSource: a row belongs to one cluster and database.
func TestStoreOfAnotherSource(t *testing.T) {
	t.Parallel()
	s := newLibScene(t, pgtest.Shared(t, 17), inPostgres)
	drained(t, s.streams(t))
	for column, value := range map[string]string{"source_system_identifier": "7", "source_database": "other"} {
		s.db.Exec(t, "create table backup as table replicant_checkpoints")
		s.db.Exec(t, fmt.Sprintf("update replicant_checkpoints set %s = '%s'", column, value))
		halts(t, s.options(), core.HaltSourceMismatch)
		s.db.Exec(t, "truncate replicant_checkpoints", "insert into replicant_checkpoints table backup", "drop table backup")
	}
	s.db.Exec(t, "update replicant_checkpoints set source_slot = 'other'")
	r := s.streams(t) // told, never bound
	drained(t, r)
	require.Equal(t, s.slot, s.row(t).Source.Slot)
	s.db.Exec(t, "update replicant_checkpoints set source_timeline = 77")
	epoch := s.row(t).Epoch
	halts(t, s.options(), core.HaltTimelineChanged)
	require.Equal(t, epoch, s.row(t).Epoch, "nothing is claimed")
	require.EqualValues(t, 77, s.row(t).Source.Timeline)
}
