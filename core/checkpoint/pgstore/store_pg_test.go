package pgstore_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/pgstore"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.NoLeaks()) }

var (
	mine, other = [16]byte{1}, [16]byte{2}
	source      = core.SourceIdentity{SystemIdentifier: "18446744073709551615", Database: `sh"op`, Slot: "s", Timeline: math.MaxUint32}
)

func open(t *testing.T, o pgstore.Options) *pgstore.Store {
	t.Helper()
	s, err := pgstore.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func claiming(read uint64, sender [16]byte) checkpoint.Claiming {
	return checkpoint.Claiming{StreamID: "orders", Read: read, Sender: sender, Source: source, SinkName: "mirror"}
}

func move(epoch uint64, sender [16]byte, from, to core.LSN) checkpoint.Move {
	return checkpoint.Move{StreamID: "orders", Epoch: epoch, Sender: sender, From: from, To: to}
}

func requireHalt(t *testing.T, err error, code core.HaltCode, text string) {
	t.Helper()
	h, ok := core.AsHalt(err)
	require.True(t, ok, "want halt %s, got %v", code, err)
	require.Equal(t, code, h.Code, "%v", err)
	require.ErrorContains(t, err, text)
}

// TestRow is the life of one row on every major, with numbers that use all 64 bits and
// names that need quoting.
func TestRow(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		ctx := t.Context()
		db := pg.Database(t)
		s := open(t, pgstore.Options{DSN: db.DSN, Table: `we"ird; Näme.x`})
		_, found, err := s.Read(ctx, "orders")
		require.NoError(t, err)
		require.False(t, found)

		r, err := s.Claim(ctx, claiming(0, mine))
		require.NoError(t, err)
		require.NotZero(t, r.Lineage)
		want := checkpoint.Record{Lineage: r.Lineage, Epoch: 1, Sender: mine, Source: source, SinkName: "mirror"}
		require.Equal(t, want, r)
		again, err := s.Claim(ctx, claiming(0, mine))
		require.NoError(t, err, "a claim may be repeated by its sender")
		require.Equal(t, want, again)
		_, err = s.Claim(ctx, claiming(0, other))
		require.ErrorIs(t, err, checkpoint.ErrOvertaken)

		require.NoError(t, s.Advance(ctx, move(1, mine, 0, 7)))
		require.ErrorIs(t, s.Advance(ctx, move(1, mine, 0, 8)), checkpoint.ErrMoved, "not where it was expected")
		require.ErrorIs(t, s.Advance(ctx, move(1, other, 7, 8)), checkpoint.ErrMoved, "the same epoch of another sender")
		require.ErrorIs(t, s.Advance(ctx, move(2, mine, 7, 8)), checkpoint.ErrMoved)
		m := move(1, mine, 7, math.MaxUint64)
		m.ResumeState = []byte{0, 1, 255}
		require.NoError(t, s.Advance(ctx, m))

		r, err = s.Claim(ctx, claiming(1, other))
		require.NoError(t, err)
		want.Epoch, want.Sender, want.Position, want.Base, want.ResumeState = 2, other, math.MaxUint64, 7, m.ResumeState
		require.Equal(t, want, r)
		require.ErrorIs(t, s.Advance(ctx, move(1, mine, 0, 9)), checkpoint.ErrMoved, "an overtaken epoch")
		_, err = s.Claim(ctx, claiming(1, mine))
		require.ErrorIs(t, err, checkpoint.ErrOvertaken)

		foreign := claiming(2, mine)
		foreign.Source.SystemIdentifier = "7"
		_, err = s.Claim(ctx, foreign)
		requireHalt(t, err, core.HaltSourceMismatch, "another database")

		db.Exec(t, fmt.Sprintf(`update "we""ird; Näme.x" set epoch = %d`, uint64(math.MaxUint64-1)))
		r, err = s.Claim(ctx, claiming(math.MaxUint64-1, mine))
		require.NoError(t, err)
		require.Equal(t, uint64(math.MaxUint64), r.Epoch)
		_, err = s.Claim(ctx, claiming(math.MaxUint64, mine))
		requireHalt(t, err, core.HaltInvariant, "highest epoch")
		requireHalt(t, s.Advance(ctx, move(1, mine, 9, 9)), core.HaltInvariant, "from 0/9 to 0/9")

		stranger := claiming(5, mine)
		stranger.StreamID = "nobody's"
		_, err = s.Claim(ctx, stranger)
		require.ErrorIs(t, err, checkpoint.ErrOvertaken, "the row is gone, so it is not as it was read")
		require.Error(t, s.Advance(ctx, checkpoint.Move{StreamID: "nobody's", Epoch: 1, To: 4}))
	})
}

// TestFirstUseRaces: many sidecars at once make one table, and of one claim there is one
// winner.
func TestFirstUseRaces(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		db := pg.Database(t)
		for round := range 3 {
			const many = 8
			var won, overtaken sync.Map
			var group sync.WaitGroup
			for i := range many {
				s := open(t, pgstore.Options{DSN: db.DSN, Table: fmt.Sprintf("t%d", round)})
				group.Go(func() {
					_, err := s.Claim(context.Background(), claiming(0, [16]byte{byte(i + 1)}))
					if err == nil {
						won.Store(i, true)
					} else {
						overtaken.Store(i, err)
					}
				})
			}
			group.Wait()
			count := func(m *sync.Map) (n int) {
				m.Range(func(_, v any) bool {
					if err, failed := v.(error); failed {
						require.ErrorIs(t, err, checkpoint.ErrOvertaken)
					}
					n++
					return true
				})
				return n
			}
			require.Equal(t, 1, count(&won))
			require.Equal(t, many-1, count(&overtaken))
		}
	})
}

// TestTransient: what a retry may mend is said to be so, within the time of a call, and
// the next call goes on by itself.
func TestTransient(t *testing.T) {
	pg := pgtest.Own(t, 16, pgembed.Options{Settings: map[string]string{"max_connections": "8", "superuser_reserved_connections": "0"}})
	db := pg.Database(t)
	s := open(t, pgstore.Options{DSN: db.DSN, CallTimeout: 300 * time.Millisecond})
	_, err := s.Claim(t.Context(), claiming(0, mine))
	require.NoError(t, err)
	unavailable := func(err error, text string) {
		t.Helper()
		requireUnavailable(t, err, text)
	}

	t.Run("a locked row", func(t *testing.T) {
		tx, err := db.Conn(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "select from replicant_checkpoints for update")
		require.NoError(t, err)
		unavailable(s.Advance(t.Context(), move(1, mine, 0, 5)), "SQLSTATE")
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, s.Advance(t.Context(), move(1, mine, 0, 5)))
	})
	t.Run("a session that was ended", func(t *testing.T) {
		end := "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name like 'replicant%store'"
		db.Exec(t, end)
		_, found, err := s.Read(t.Context(), "orders")
		require.NoError(t, err, "a read on a connection that died is repeated")
		require.True(t, found)
		db.Exec(t, end)
		unavailable(s.Advance(t.Context(), move(1, mine, 5, 6)), "advance")
		require.NoError(t, s.Advance(t.Context(), move(1, mine, 5, 6)))
	})
	t.Run("no connection left", func(t *testing.T) {
		for range 12 {
			other := open(t, pgstore.Options{DSN: db.DSN})
			if _, _, err = other.Read(t.Context(), "orders"); err != nil {
				break
			}
		}
		unavailable(err, "no connection left")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := s.Read(ctx, "orders")
		unavailable(err, "cancelled")
	})
	t.Run("a crash", func(t *testing.T) {
		require.NoError(t, pg.Kill())
		_, _, err := s.Read(t.Context(), "orders")
		unavailable(err, "read")
		unavailable(s.Advance(t.Context(), move(1, mine, 6, 7)), "advance")
		require.NoError(t, pg.Restart(t.Context()))
		r, found, err := s.Read(t.Context(), "orders")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, core.LSN(6), r.Position, "what was answered is durable")
	})
	t.Run("a frozen server", func(t *testing.T) {
		began := time.Now()
		freeze(t, pg)
		_, _, err := s.Read(t.Context(), "orders")
		unavailable(err, "no answer in time")
		require.Less(t, time.Since(began), 15*time.Second)
	})
}

// TestClassification: only what is listed is waited for.
func TestClassification(t *testing.T) {
	for _, code := range []string{"53100", "53200", "53300", "57P01", "57P02", "57P03", "57P05", "57014", "08006", "08P01", "40001", "40P01", "55P03", "XX000"} {
		requireUnavailable(t, pgstore.Classify("advance", code), code)
	}
	for _, code := range []string{"42501", "42P01", "3D000", "28P01", "28000", "25006", "23514", "XX001", "58030", "57P04", "53400", ""} {
		requireHalt(t, pgstore.Classify("advance", code), core.HaltStoreInvalid, code)
	}
}

// TestDurableSettings: our connection flushes whatever the server's default is, and a
// write on a connection where that was lost again is refused.
func TestDurableSettings(t *testing.T) {
	pg := pgtest.Own(t, 15, pgembed.Options{Settings: map[string]string{"synchronous_commit": "local"}})
	db := pg.Database(t)
	s := open(t, pgstore.Options{DSN: db.DSN})
	_, err := s.Claim(t.Context(), claiming(0, mine))
	require.NoError(t, err)
	// Somebody in between hands our statement to a session with other settings.
	db.Exec(t, "create function off() returns trigger language plpgsql as $$begin perform set_config('synchronous_commit','off',false); return new; end$$",
		"create trigger off before update on replicant_checkpoints for each row execute function off()")
	requireHalt(t, s.Advance(t.Context(), move(1, mine, 0, 5)), core.HaltStoreInvalid, "synchronous_commit is off again")
}

// TestStandbyIsNoStore: a standby answers with rows that may be old.
func TestStandbyIsNoStore(t *testing.T) {
	pg := pgtest.Own(t, 17, pgembed.Options{})
	db := pg.Database(t)
	require.NoError(t, pg.Stop())
	signal(t, pg, "standby.signal")
	require.NoError(t, pg.Restart(t.Context()))
	_, _, err := open(t, pgstore.Options{DSN: db.DSN}).Read(t.Context(), "orders")
	requireHalt(t, err, core.HaltStoreInvalid, "standby")
	remove(t, pg, "standby.signal")
	require.NoError(t, pg.Restart(t.Context()))
}
