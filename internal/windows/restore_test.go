package windows

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

// breach lets the sink break the contract from its n-th unit on, for two starts; then a
// sound one takes its place.
func breach(what string, from int, code core.HaltCode) func(*scene) {
	return func(s *scene) {
		s.base()
		sink := s.startSink("sink.call=delay:1ms@1+", fmt.Sprintf("TESTSINK_BREACH=%s@%d", what, from))
		s.writeMany(from + 2)
		s.halted(s.startSidecar(""), code)
		calls := s.passages(sink, failpoint.SinkCall)
		want := from
		if what == "panic" {
			want += 2 // delivered again, and once more
		}
		require.Equal(s.T, want, calls, "calls until the halt")
		s.seen("%d calls", calls)
		before, err := s.durable()(s.ctx)
		require.NoError(s.T, err)
		s.halted(s.startSidecar(""), code)
		after, err := s.durable()(s.ctx)
		require.NoError(s.T, err)
		if what != "wrong_lsn" { // there the sink has stored one more
			require.Equal(s.T, before, after, "it delivered more")
		}
		told, err := judge.Confirmed(s.ctx, s.slotAt(), s.slot)
		require.NoError(s.T, err)
		require.LessOrEqual(s.T, told, after, "ACK")
		s.end(sink)
		s.startSink("")
		s.startSidecar("")
		s.write()
		s.judge(0, 0)
	}
}

// passages counts the lines of a point.
func (s *scene) passages(a actor, point failpoint.Point) (n int) {
	s.Helper()
	var all []failpoint.Witness
	s.until("no line of the witness is half written", func() (whole bool) {
		var err error
		all, err = failpoint.ReadWitness(a.file())
		return err == nil
	})
	for _, w := range all {
		if w.Point == point {
			n++
		}
	}
	return n
}

// admin runs statements beside the databases.
func (s *scene) admin(statements ...string) {
	s.Helper()
	(&pgtest.DB{Server: s.sink.Server, Name: "postgres", DSN: s.sink.Server.DSN("postgres")}).Exec(s.T, statements...)
}

// backup copies the sink's database under a name, which is dropped in the end.
func (s *scene) backup(name string) string {
	s.Helper()
	name = s.sink.Name + name
	if len(name) > 63 {
		name = name[len(name)-63:]
	}
	s.until("the copy is made", func() bool {
		return s.ask(s.sink.Server.DSN("postgres"), "SELECT count(*)::text FROM pg_stat_activity WHERE datname = $1", s.sink.Name) == "0"
	})
	s.admin(fmt.Sprintf(`CREATE DATABASE "%s" TEMPLATE "%s"`, name, s.sink.Name))
	s.Cleanup(func() { s.admin(fmt.Sprintf(`DROP DATABASE IF EXISTS "%s" WITH (FORCE)`, name)) })
	return name
}

// restore puts another database in the place of the sink's, while sessions are on it.
func (s *scene) restore(from string) {
	s.Helper()
	gone := "gone_" + s.slot
	s.admin(
		fmt.Sprintf(`ALTER DATABASE "%s" WITH ALLOW_CONNECTIONS false`, s.sink.Name),
		fmt.Sprintf(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '%s'`, s.sink.Name),
		fmt.Sprintf(`ALTER DATABASE "%s" RENAME TO "%s"`, s.sink.Name, gone),
		fmt.Sprintf(`ALTER DATABASE "%s" RENAME TO "%s"`, from, s.sink.Name),
	)
	s.Cleanup(func() { s.admin(fmt.Sprintf(`DROP DATABASE IF EXISTS "%s" WITH (FORCE)`, gone)) })
}

// quiesced stops the sampling, which holds sessions on the sink's database.
func (s *scene) quiesced() {
	s.Helper()
	s.sampled()
}

func sinkRestored(s *scene) {
	s.base()
	s.quiesced()
	copied := s.backup("_b")
	sink := s.startSink("")
	sidecar := s.startSidecar("")
	s.writeMany(3)
	s.arrived()
	s.stop(sidecar)
	s.end(sink)
	s.restore(copied)
	s.startSink("")
	s.halts(s.startSidecar(""), core.HaltSlotAhead)
}

// sinkRestoredUntold: the slot was not told what is lost, so the source still has it.
func sinkRestoredUntold(s *scene) {
	s.base()
	s.quiesced()
	copied := s.backup("_b")
	sink := s.startSink("")
	sidecar := s.startSidecar("status.before=block:" + s.gate())
	s.writeMany(3)
	s.arrived()
	s.witnessed(sidecar, failpoint.StatusBefore, "block")
	s.kill(sidecar)
	s.end(sink)
	s.restore(copied)
	require.False(s.T, s.there(s.tx))
	s.startSink("")
	s.startSidecar("")
	s.write()
	s.arrived()
	require.NoError(s.T, s.log().Once())
	s.seen("delivered to the copy")
}

// sinkSwapped puts another store in the sink's place between two calls.
func sinkSwapped(what string, code core.HaltCode) func(*scene) {
	return func(s *scene) {
		s.base()
		s.quiesced()
		copied := ""
		switch what {
		case "before":
			copied = s.backup("_b")
		case "empty":
			copied = s.backup("_b")
			(&pgtest.DB{Server: s.sink.Server, Name: copied, DSN: s.sink.Server.DSN(copied)}).Exec(s.T, "TRUNCATE testsink.stream, testsink.log, ledger, t")
		}
		sink := s.startSink("")
		sidecar := s.startSidecar("")
		s.streaming()
		if what == "copy" {
			// A copy of a moment at which nothing happens; the sink's sessions are ended for it.
			s.write()
			s.arrived()
			s.until("all is told", func() bool { return s.toldAll() })
			require.NoError(s.T, sink.Signal(syscall.SIGSTOP))
			s.admin(fmt.Sprintf(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '%s'`, s.sink.Name))
			copied = s.backup("_b")
			require.NoError(s.T, sink.Signal(syscall.SIGCONT))
		}
		s.writeMany(3)
		s.arrived()
		s.until("all is told", func() bool { return s.toldAll() })
		s.restore(copied)
		s.write()
		s.halted(sidecar, code)
		require.Contains(s.T, sidecar.said(), "CHECKPOINT_BEHIND", "the sink said it first")
		s.halted(s.startSidecar(""), code)
	}
}

// sinkSwappedUntold puts an earlier copy in the sink's place between two calls, while the
// slot has not been told what the copy lacks: so the source still has it.
func sinkSwappedUntold(s *scene) {
	s.make()
	p, dsn := s.postgres(s.source.DSN, replication)
	s.from = dsn
	sink, sidecar := s.up()
	s.until("all is told", func() bool { return s.toldAll() })
	s.quiesced()
	require.NoError(s.T, sink.Signal(syscall.SIGSTOP))
	s.admin(fmt.Sprintf(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '%s'`, s.sink.Name))
	copied := s.backup("_b")
	require.NoError(s.T, sink.Signal(syscall.SIGCONT))
	p.hold()
	before := s.confirmed()
	s.writeMany(3)
	s.arrived()
	require.Equal(s.T, before, s.confirmed(), "the slot was told")
	s.restore(copied)
	require.False(s.T, s.there(s.tx))
	s.write()
	s.until("the sink says that it went back", func() bool { return strings.Contains(sidecar.said(), "CHECKPOINT_BEHIND") })
	s.seen("CHECKPOINT_BEHIND")
	s.seen("%d connections cut", p.cutAll())
	p.release()
	s.watch()
	s.write()
	s.judge(0, 0)
	require.Empty(s.T, sidecar.halt())
}
