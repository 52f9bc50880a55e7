package windows

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

// large is a table that is copied in many chunks by a sidecar that is killed again and
// again. REPLICANT_CASES=long takes the size at which others began anew at 99 %.
type large struct{ rows, chunk, kills int }

func largeTable() large {
	if os.Getenv("REPLICANT_CASES") == "long" {
		return large{rows: 10_000_000, chunk: 5000, kills: 20}
	}
	return large{rows: 12_000, chunk: 200, kills: 5}
}

// lives is how many chunks a sidecar gets done before it is killed.
func (l large) lives() int { return l.rows / l.chunk / (l.kills + 2) }

// TestN15KilledInALargeTable: kill -9 in the middle of the copy of a large table. A copy
// beside the stream goes on behind the last chunk that was stored, and sends at most the one
// again that was on its way; an initial one says that it begins anew.
func TestN15KilledInALargeTable(t *testing.T) {
	h := newHouse(t, casesOf("N2")[:1])
	major := 0
	for m := range h.server {
		major = m
	}
	for name, run := range map[string]func(*scene, large){
		"incremental":                  killedBeside,
		"incremental, sidecar's store": func(s *scene, l large) { killedBeside(s.lib(1), l) },
		"initial":                      killedInitially,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, h, major).long(20 * limit)
			s.kind = "mirror"
			l := largeTable()
			if l.rows > 1_000_000 {
				s.long(3 * time.Hour)
			}
			run(s, l)
		})
	}
}

func (s *scene) fill(l large) {
	s.Helper()
	s.make()
	s.source.Exec(s.T, fmt.Sprintf("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, %d) i", l.rows))
	s.write()
}

func killedBeside(s *scene, l large) {
	s.intent = []string{"--snapshot", "incremental"}
	s.args = append(s.args, "--copy-chunk-rows", fmt.Sprint(l.chunk))
	s.fill(l)
	s.startSink("")
	points := []failpoint.Point{failpoint.ChunkApplied, failpoint.ChunkMarked, failpoint.TokenStored, failpoint.CallAfter, failpoint.ChunkBuffered}
	copied := 0
	for n := range l.kills {
		point := points[n%len(points)]
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, l.lives()))
		s.killed(sidecar, point)
		now := s.copiedRows()
		require.Greater(s.T, now, copied, "the copy of before counts for nothing")
		copied = now
	}
	require.Less(s.T, copied, l.rows, "it was not in the middle")
	s.complete(s.startSidecar(""))
	s.write()
	s.same()
	again := s.copiedRows() - l.rows - 4 // four of the first transaction
	require.LessOrEqual(s.T, again, l.kills*l.chunk, "more than one chunk a kill was sent again")
	if s.store == nil {
		require.Zero(s.T, again, "token and rows are stored together")
	}
	s.Logf("%d rows, %d of them twice over %d kills", l.rows, again, l.kills)
}

// copiedRows counts the rows of all units, those that came again too.
func (s *scene) copiedRows() (rows int) {
	s.Helper()
	report, err := judge.Copies(s.ctx, s.sink.DSN, s.slot)
	require.NoError(s.T, err)
	for _, u := range report.Units {
		rows += u.Rows
	}
	return rows
}

func killedInitially(s *scene, l large) {
	s.intent = []string{"--snapshot", "initial"}
	s.env = append(s.env, fmt.Sprintf("TESTSINK_PREFERRED=%d", 50*l.chunk))
	s.fill(l)
	s.startSink("")
	s.killed(s.startSidecar(fmt.Sprintf("snapshot.batch=kill@%d", l.lives())), failpoint.SnapshotBatch)
	part := s.copiedRows()
	require.Positive(s.T, part)
	require.Less(s.T, part, l.rows)
	s.halted(s.startSidecar(""), core.HaltSnapshotIncomplete)
	s.startSidecar("", "--snapshot-redo")
	s.write()
	s.same()
	report, err := judge.Copies(s.ctx, s.sink.DSN, s.slot)
	require.NoError(s.T, err)
	firsts := map[string]int{}
	for _, u := range report.Of("public.t") {
		if u.First {
			firsts[u.Run]++
			require.NotZero(s.T, u.Reset, "the sink is not told to clear the table")
		}
	}
	require.Len(s.T, firsts, 2, "the new run is told from the old one")
}
