package windows

import (
	"fmt"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

func breach(what string, code core.HaltCode) func(*scene) {
	return func(s *scene) {
		s.base()
		s.env = append(s.env, "TESTSINK_BREACH="+what)
		s.startSink("")
		sidecar := s.startSidecar("")
		s.streaming()
		s.writeMany(2)
		s.halted(sidecar, code)
		s.sampled()
		at, err := s.durable()(s.ctx)
		require.NoError(s.T, err)
		told, err := judge.Confirmed(s.ctx, s.slotAt(), s.slot)
		require.NoError(s.T, err)
		require.LessOrEqual(s.T, told, at)
	}
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
