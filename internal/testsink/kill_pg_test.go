package testsink_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/process"
)

// witnessed requires exactly one hit of a point by the present sink.
func (r *road) witnessed(file string, point failpoint.Point, ordinal int, action string) {
	r.Helper()
	all, err := failpoint.ReadWitness(file)
	require.NoError(r, err)
	require.Equal(r, []failpoint.Witness{{Point: point, Ordinal: int64(ordinal), PID: r.process.PID(), Action: action}}, all)
}

// killedAt waits until the sink was killed at a point.
func (r *road) killedAt(file string, point failpoint.Point, ordinal int) {
	r.Helper()
	status, err := r.process.Wait(patience)
	require.NoError(r, err)
	require.True(r, status.Signaled() && status.Signal() == syscall.SIGKILL, "%v", status)
	r.witnessed(file, point, ordinal, "kill")
}

// rows is one transaction of the ledger with three rows beside it.
func (r *road) rows(n int) {
	r.Helper()
	r.tx(n, 3, fmt.Sprintf("INSERT INTO t SELECT %d * 10 + i, 'v' FROM generate_series(1, 3) i", n))
}

// TestKilledAtEveryPoint: the sink dies at each of its points, at the first passage and
// at a later one. With a checkpoint of its own nothing is lost and nothing takes effect
// twice; with ours at most the one transaction.
func TestKilledAtEveryPoint(t *testing.T) {
	points := []failpoint.Point{failpoint.SinkCall, failpoint.SinkBegun, failpoint.SinkRow, failpoint.SinkCheckpoint, failpoint.SinkCommitted}
	for _, lib := range []bool{false, true} {
		for _, point := range points {
			for _, ordinal := range []int{1, 6} {
				t.Run(fmt.Sprintf("lib=%t/%s@%d", lib, point, ordinal), func(t *testing.T) {
					t.Parallel()
					r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Kind: testsink.KindBoth, Lib: lib}, table)
					r.options.Delivery.Mode = pipeline.ModeTransaction
					if lib {
						r.options.Delivery.Mode = pipeline.ModeAuto
					}
					r.base()
					for n := 1; n <= 10; n++ {
						r.rows(n)
					}
					witness := r.spawn(fmt.Sprintf("%s=kill@%d", point, ordinal))
					r.begin()
					r.killedAt(witness, point, ordinal)
					r.spawn("")
					r.rows(11)
					r.arrived(1, 11)
					r.judgeKill(point, lib)
				})
			}
		}
	}
}

func (r *road) judgeKill(point failpoint.Point, lib bool) {
	r.Helper()
	report := r.log()
	r.mirrored(2, 44)
	again := len(report.Repeats)
	switch {
	case lib && point == failpoint.SinkCommitted:
		require.NoError(r, report.AtMost(1, 1))
		require.Equal(r, 1, again, "it was committed and not stored: it comes again")
	default:
		require.NoError(r, report.Once())
	}
	r.drain()
	r.settled()
}

const table = "CREATE TABLE t (id int PRIMARY KEY, v text)"

// base makes the slot and the stream's first row, with a sink of its own.
func (r *road) base() {
	r.Helper()
	r.spawn("")
	r.stream()
	r.drain()
	require.NoError(r, r.process.Signal(syscall.SIGTERM))
	status, err := r.process.Wait(patience)
	require.NoError(r, err)
	require.True(r, status.Exited() && status.ExitStatus() == 0, "%v", status)
}

// settled requires slot and checkpoint to agree, and nothing to be left over.
func (r *road) settled() {
	r.Helper()
	at, err := judge.Settle(r.Context(), r.source.DSN, r.slot, 1, r.durable())
	require.NoError(r, err)
	require.NotZero(r, at)
	left, err := judge.Clean(r.Context(), r.sink.DSN)
	require.NoError(r, err)
	require.Empty(r, left)
}

// TestKilledAtTheClaim: a claim that was not stored is made again.
func TestKilledAtTheClaim(t *testing.T) {
	t.Parallel()
	r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Kind: testsink.KindLog})
	r.base()
	r.tx(1, 0)
	witness := r.spawn("sink.claim=kill")
	r.begin()
	r.killedAt(witness, failpoint.SinkClaim, 1)
	r.spawn("")
	r.arrived(1, 1)
	require.NoError(t, r.log().Once())
}

// TestErrorAtEveryPoint: an error is not an end; the sidecar delivers again.
func TestErrorAtEveryPoint(t *testing.T) {
	for _, point := range []failpoint.Point{failpoint.SinkClaim, failpoint.SinkCall, failpoint.SinkBegun, failpoint.SinkRow, failpoint.SinkCheckpoint, failpoint.SinkCommitted} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Kind: testsink.KindBoth}, table)
			r.base()
			ordinal := 2
			if point == failpoint.SinkClaim {
				ordinal = 1
			}
			witness := r.spawn(fmt.Sprintf("%s=error@%d", point, ordinal))
			for n := 1; n <= 5; n++ {
				r.rows(n)
			}
			r.options.Delivery.Mode = pipeline.ModeTransaction
			r.begin()
			r.arrived(1, 5)
			r.witnessed(witness, point, ordinal, "error")
			require.NoError(t, r.log().Once())
			r.mirrored(2, 20)
		})
	}
}

// TestLateCommit: a sink that commits long after its caller left. The successor's claim
// waits for the row, and finds done what it would have sent.
func TestLateCommit(t *testing.T) {
	for point, ordinal := range map[failpoint.Point]int{failpoint.SinkBegun: 2, failpoint.SinkRow: 1, failpoint.SinkCheckpoint: 1} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Kind: testsink.KindBoth}, table)
			r.base()
			release := filepath.Join(t.TempDir(), "release")
			witness := r.spawn(fmt.Sprintf("%s=block:%s@%d", point, release, ordinal)) // the claim passes sink.begun too
			r.rows(1)
			r.begin()
			r.until("the sink blocks", func() bool {
				text, _ := os.ReadFile(witness)
				return strings.Contains(string(text), "block")
			})
			zombie := r.process
			r.crash()

			r.socket += "2"
			r.spawn("")
			r.begin()
			r.until("the claim waits for the row", r.waitsForLock)
			require.NoError(t, os.WriteFile(release, nil, 0o600))
			r.rows(2)
			r.arrived(1, 2)
			report := r.log()
			require.NoError(t, report.Once())
			require.Equal(t, []int{zombie.PID(), r.process.PID()}, report.Writers, "the late one did commit")
			r.mirrored(2, 8)
			r.drain()
		})
	}
}

// waitsForLock reports whether the present sink waits for another session.
func (r *road) waitsForLock() bool {
	return len(r.list(`SELECT 'waits' FROM pg_stat_activity WHERE datname = current_database()
		AND application_name = $1 AND wait_event_type = 'Lock'`, fmt.Sprintf("testsink %d", r.process.PID()))) > 0
}

// blocked spawns a sink that blocks at the first unit's call, lets the sidecar run into
// it and die, and returns what releases the call.
func (r *road) blocked() (zombie *process.Process, release func()) {
	r.Helper()
	r.base()
	r.tx(1, 0)
	file := filepath.Join(r.TempDir(), "release")
	witness := r.spawn("sink.call=block:" + file)
	r.begin()
	r.until("the sink blocks", func() bool {
		text, _ := os.ReadFile(witness)
		return strings.Contains(string(text), "block")
	})
	r.crash()
	zombie = r.process
	r.socket += "2"
	return zombie, func() { require.NoError(r, os.WriteFile(file, nil, 0o600)) }
}

// TestBlockedPastATakeover: a call that was held back until another epoch ruled has no
// effect.
func TestBlockedPastATakeover(t *testing.T) {
	t.Parallel()
	r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Kind: testsink.KindLog})
	zombie, release := r.blocked()
	r.spawn("")
	r.stream()
	r.arrived(1, 1)
	release()
	require.NoError(t, zombie.Signal(syscall.SIGTERM))
	_, err := zombie.Wait(patience) // its call has ended by then
	require.NoError(t, err)
	report := r.log()
	require.NoError(t, report.Once())
	require.Equal(t, []int{r.process.PID()}, report.Writers)
}

// TestCallOutlivesItsCaller: nobody waits for the call any more, and it is done all the
// same. The successor finds nothing left to do.
func TestCallOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Kind: testsink.KindLog})
	zombie, release := r.blocked()
	release()
	r.arrived(1, 1)
	r.spawn("")
	r.stream()
	r.tx(2, 0)
	r.arrived(1, 2)
	report := r.log()
	require.NoError(t, report.Once())
	require.Equal(t, []int{zombie.PID(), r.process.PID()}, report.Writers)
}

// TestBreaches: what the sink does wrong on request halts the sidecar.
func TestBreaches(t *testing.T) {
	for what, code := range map[string]core.HaltCode{
		testsink.BreachWrongLSN: core.HaltSinkContract,
		testsink.BreachRefuse:   core.HaltSinkRejected,
		testsink.BreachPanic:    core.HaltSinkFailed,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRoad(t, pgtest.Shared(t, 17), testsink.Config{Kind: testsink.KindLog, Breach: testsink.Breach{What: what, From: 2}})
			r.spawn("")
			r.stream()
			r.tx(1, 0)
			r.halts(code)
			_, _, err := judge.Acked(t.Context(), r.source.DSN, r.slot, r.durable())
			require.NoError(t, err)
		})
	}
}
