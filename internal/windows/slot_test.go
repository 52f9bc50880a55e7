package windows

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func init() { add(anyMajor, casesSlot) }

// casesSlot are rows of the source's server and of slots.
var casesSlot = []window{
	{"U3", 1, "UP to SC, T cut after 1 to 56 bytes", exact, cutAtEveryByte},
	{"U8", 1, "SC, P spill.half=kill@1", exact + " CLEAN", spillKilled(failpoint.SpillHalf, "1")},
	{"U8", 1, "SC, P spill.half=kill@4", exact + " CLEAN", spillKilled(failpoint.SpillHalf, "4")},
	{"U8", 1, "SC, P spill.named=kill@1", exact + " CLEAN", spillKilled(failpoint.SpillNamed, "1")},
	{"U8", 1, "SC, P spill.named=kill@2", exact + " CLEAN", spillKilled(failpoint.SpillNamed, "2")},
	{"U8", 2, "D, spill.max of 2 MiB", "HALT(spill_exhausted) twice CLEAN " + exact, spillLimited},
	{"U8", 2, "D, a file system of 2 MiB", "HALT(spill_failed) twice CLEAN " + exact, spillDiskFull},
	{"U10", 1, "UP, Q drop", "HALT(data_gap.slot_missing) twice", slotBroken(core.HaltSlotMissing, "SELECT pg_drop_replication_slot('%')")},
	{"U10", 2, "UP, Q drop and create", "HALT(slot_ahead) twice", slotBroken(core.HaltSlotAhead,
		"SELECT pg_drop_replication_slot('%')", "SELECT pg_create_logical_replication_slot('%', 'pgoutput')")},
	{"U10", 3, "UP, Q max_slot_wal_keep_size", "HALT(slot_invalidated) twice", slotInvalidated},
	{"U10", 4, "UP, Q drop and create, test_decoding", "HALT(slot_plugin) twice", slotBroken(core.HaltSlotPlugin,
		"SELECT pg_drop_replication_slot('%')", "SELECT pg_create_logical_replication_slot('%', 'test_decoding')")},
	{"U11", 0, "UP, promotion", "HALT(source_timeline_changed) twice", sourcePromoted},
	{"U14", 0, "UP, Q ALTER TABLE, additive", exact, shapeAdded},
	{"U14", 0, "UP, Q ALTER TABLE, destructive", "HALT(schema_change_destructive) twice", shapeLost},
	{"U22", 0, "UP, the files of an earlier moment", "HALT(source_behind) twice", sourceBehind},
	{"U23", 0, "UP, Q a streamed transaction of plain", exact, emptyStreamed},
	{"U24", 0, "UP, S SIGINT, a healthy sink", "2 s, " + exact, sourceStops(false)},
	{"U24", 0, "UP, S SIGINT, SK B sink.call", "the call's deadline, " + exact, sourceStops(true)},
}

// cutAtEveryByte cuts the stream after 1, 2, 3 bytes and so on behind a quiet moment: all
// places of the frame of a BEGIN (51 bytes), and some of the next.
func cutAtEveryByte(s *scene) {
	s.long(3 * limit).make()
	p, dsn := s.postgres(s.source.DSN, replication)
	s.from = dsn
	_, sidecar := s.up()
	for n := 1; n <= 56; n++ {
		s.until("it streams again", func() bool { return strings.Count(sidecar.said(), `"msg":"streaming"`) >= p.cut()+1 })
		p.cutAfter(n)
		s.write()
		s.until("it is cut", func() bool { return p.cut() == n })
	}
	s.seen("%d cuts", p.cut())
	s.judge(0, 0)
}

// streamed lets transactions come before their commit. They must be larger than what
// stays in memory.
func (s *scene) streamed() *scene {
	s.args = append(s.args, "--streaming", "on")
	return s
}

const bulk = 12000 // rows of 2400 bytes are more than the 16 MiB that stay in memory

// spilled requires that no file is left.
func (s *scene) spilled() {
	s.Helper()
	require.NoError(s.T, filepath.WalkDir(filepath.Join(s.dir, "spill"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" {
			s.Errorf("CLEAN: %s is left", filepath.Base(path))
		}
		return nil
	}))
}

func spillKilled(point failpoint.Point, ordinal string) func(*scene) {
	return func(s *scene) {
		s.streamed().base()
		s.startSink("")
		sidecar := s.startSidecar(string(point) + "=kill@" + ordinal)
		s.commit(bulk, s.rows(bulk, 2400))
		if point == failpoint.SpillNamed && ordinal != "1" {
			s.commit(bulk, s.rows(bulk, 2400)) // a file for each
		}
		s.killed(sidecar, point)
		s.write()
		s.startSidecar("")
		s.judge(0, 0)
		s.spilled()
	}
}

func spillLimited(s *scene) {
	s.streamed().base()
	s.startSink("")
	args := s.args
	s.args = append(args[:len(args):len(args)], "--spill-max", "2MiB")
	s.commit(bulk, s.rows(bulk, 2400))
	s.halts(s.startSidecar(""), core.HaltSpillExhausted)
	s.spilled()
	s.args = args
	s.startSidecar("")
	s.judge(0, 0)
	s.spilled()
}

// spillDiskFull has a file system that is too small; it needs the right to mount one.
func spillDiskFull(s *scene) {
	s.streamed().base()
	dir := filepath.Join(s.dir, "small")
	require.NoError(s.T, os.Mkdir(dir, 0o700))
	require.NoError(s.T, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=0700"), "a file system of fixed size needs root")
	s.Cleanup(func() { require.NoError(s.T, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	s.startSink("")
	args := s.args
	s.args = append(args[:len(args):len(args)], "--spill-dir", dir)
	s.commit(bulk, s.rows(bulk, 2400))
	s.halts(s.startSidecar(""), core.HaltSpillFailed)
	left, err := os.ReadDir(filepath.Join(dir, s.slot))
	require.NoError(s.T, err)
	for _, one := range left {
		require.Equal(s.T, "lock", one.Name(), "CLEAN")
	}
	s.args = args
	s.startSidecar("")
	s.judge(0, 0)
}

// slotBroken does something to the slot while we are down; % is its name.
func slotBroken(code core.HaltCode, statements ...string) func(*scene) {
	return func(s *scene) {
		s.base()
		s.startSink("")
		s.sampled()
		s.write()
		for _, sql := range statements {
			s.source.Exec(s.T, strings.ReplaceAll(sql, "%", s.slot))
		}
		s.halts(s.startSidecar(""), code)
	}
}

// slotInvalidated lets the server give the slot up.
func slotInvalidated(s *scene) {
	s.server = pgtest.Own(s.T, s.major, pgembed.Options{Settings: map[string]string{"max_slot_wal_keep_size": "1MB", "autovacuum": "off"}})
	s.base()
	s.startSink("")
	s.sampled()
	for range 4 {
		s.filtered()
		s.source.Exec(s.T, "SELECT pg_switch_wal()")
	}
	s.source.Exec(s.T, "CHECKPOINT")
	require.Equal(s.T, "lost", s.ask(s.source.DSN, "SELECT wal_status FROM pg_replication_slots WHERE slot_name = $1", s.slot))
	s.halts(s.startSidecar(""), core.HaltSlotInvalidated)
}

// owned makes a file in the cluster's directory that belongs to its account.
func (s *scene) owned(name string) {
	s.Helper()
	path := filepath.Join(s.server.DataDir(), name)
	require.NoError(s.T, os.WriteFile(path, nil, 0o600))
	st, err := os.Stat(s.server.DataDir())
	require.NoError(s.T, err)
	sys := st.Sys().(*syscall.Stat_t)
	require.NoError(s.T, os.Chown(path, int(sys.Uid), int(sys.Gid)))
}

// sourcePromoted makes the source a standby for a moment and promotes it: another
// timeline, with the slot in place.
func sourcePromoted(s *scene) {
	s.own().base()
	s.startSink("")
	s.sampled()
	require.NoError(s.T, s.server.Stop())
	s.owned("standby.signal")
	require.NoError(s.T, s.server.Restart(s.ctx))
	s.until("it is promoted", func() bool { return s.ask(s.source.DSN, "SELECT pg_promote()::text") == "true" })
	require.Equal(s.T, "2", s.ask(s.source.DSN, "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 8, 1)"))
	s.write()
	s.halts(s.startSidecar(""), core.HaltTimelineChanged)
}

// sourceBehind puts the files of an earlier moment back.
func sourceBehind(s *scene) {
	s.own().base()
	data := s.server.DataDir()
	require.NoError(s.T, s.server.Stop())
	out, err := exec.Command("cp", "-a", data, data+".old").CombinedOutput()
	require.NoError(s.T, err, "%s", out)
	require.NoError(s.T, s.server.Restart(s.ctx))
	s.startSink("")
	sidecar := s.startSidecar("")
	s.commit(6000, s.rows(6000, 1000))
	s.arrived()
	s.stop(sidecar)
	s.sampled()
	require.NoError(s.T, s.server.Stop())
	require.NoError(s.T, os.RemoveAll(data))
	require.NoError(s.T, os.Rename(data+".old", data))
	require.NoError(s.T, s.server.Restart(s.ctx))
	s.halts(s.startSidecar(""), core.HaltSourceBehind)
}

// shapeAdded adds a column between two changes of one transaction.
func shapeAdded(s *scene) {
	s.up()
	s.commit(4, "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "ALTER TABLE t ADD COLUMN w text", "INSERT INTO t VALUES (3, 'c', 'w'), (4, 'd', 'w')")
	s.write()
	s.judge(0, 0)
	require.Equal(s.T, "w", s.ask(s.sink.DSN, "SELECT w FROM t WHERE id = '4'"))
	s.seen("the column is in the mirror")
}

// shapeLost drops a column, for a sink that is not told of shapes.
func shapeLost(s *scene) {
	s.env = append(s.env, "TESTSINK_WITHOUT=SCHEMA_CHANGE")
	s.base()
	s.startSink("")
	sidecar := s.startSidecar("")
	s.write()
	s.commit(0, "ALTER TABLE t DROP COLUMN v")
	s.arrived()
	s.commit(1, "INSERT INTO t VALUES (1)")
	s.halts(sidecar, core.HaltSchemaDestructive)
	s.sampled()
	require.False(s.T, s.there(s.tx), "it went past the change")
}

// emptyStreamed lets the commit of a streamed transaction that holds nothing for us
// arrive while a batch is open.
func emptyStreamed(s *scene) {
	s.batch(100).streamed().base()
	gate := s.gate()
	sink := s.startSink("sink.call=block:" + gate)
	s.write()
	sidecar := s.startSidecar("read.commit=delay:1ms@3")
	s.witnessed(sink, failpoint.SinkCall, "block")
	s.write()
	s.source.Exec(s.T, "INSERT INTO plain SELECT generate_series(1, 50000)")
	s.witnessed(sidecar, failpoint.ReadCommit, "delay")
	before := s.confirmed()
	time.Sleep(500 * time.Millisecond) // two status intervals
	require.Equal(s.T, before, s.confirmed(), "confirmed past an open batch")
	s.release(gate)
	s.judge(0, 0)
}

// sourceStops measures how long a fast stop takes behind WAL that holds nothing for us.
func sourceStops(blocked bool) func(*scene) {
	return func(s *scene) {
		s.long(3 * limit).own().base()
		within := 2*time.Second + 2*s.stopsAlone()
		gate := s.gate()
		if blocked {
			within = core.CallTimeoutDefault + 30*time.Second // when the call is given up
			sink := s.startSink("sink.call=block:" + gate)
			s.write()
			s.startSidecar("")
			s.witnessed(sink, failpoint.SinkCall, "block")
		} else {
			s.startSink("")
			s.startSidecar("")
			s.streaming()
			s.write()
			s.arrived()
		}
		s.filtered()
		took := s.stopsFast()
		s.seen("stopped in %v", took.Round(10*time.Millisecond))
		require.Less(s.T, took, within)
		require.NoError(s.T, s.server.Restart(s.ctx))
		s.release(gate)
		s.write()
		s.judge(0, 0)
	}
}

// stopsFast stops the source's server and says how long that took.
func (s *scene) stopsFast() time.Duration {
	s.Helper()
	began := time.Now()
	require.NoError(s.T, syscall.Kill(s.server.PID(), syscall.SIGINT))
	s.until("the server stops", func() bool { return !s.server.Running() })
	return time.Since(began)
}

// stopsAlone is how long a stop takes on this machine when nobody reads.
func (s *scene) stopsAlone() time.Duration {
	s.Helper()
	took := s.stopsFast()
	require.NoError(s.T, s.server.Restart(s.ctx))
	return took
}
