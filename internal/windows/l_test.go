package windows

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

const (
	again  = "LOSS DUP1 ORD ATOM ACK MONO VAL"
	againN = "LOSS DUPn ORD ATOM ACK MONO VAL"
)

func init() { add(anyMajor, casesStore) }

// casesStore are the rows whose checkpoint the sidecar keeps.
var casesStore = []window{
	{"L1", 1, "SK, P sink.committed=kill@1", again, libSink(failpoint.SinkCommitted, 1, 1, 1)},
	{"L1", 1, "SK, P sink.committed=kill@4", again, libSink(failpoint.SinkCommitted, 4, 1, 1)},
	{"L2", 1, "SC, P call.after=kill@1", again, libSidecar(failpoint.CallAfter, 1, 1, 1)},
	{"L2", 1, "SC, P call.after=kill@4", again, libSidecar(failpoint.CallAfter, 4, 1, 1)},
	{"L2", 1, "SC, P store.before=kill@1", again, libSidecar(failpoint.StoreBefore, 1, 1, 1)},
	{"L2", 1, "SC, P store.before=kill@4", again, libSidecar(failpoint.StoreBefore, 4, 1, 1)},
	{"L4", 1, "SC, P deliver.after=kill@1", exact, libSidecar(failpoint.DeliverAfter, 1, 1, 0)},
	{"L4", 1, "SC, P deliver.after=kill@4", exact, libSidecar(failpoint.DeliverAfter, 4, 1, 0)},
	{"L6", 1, "SC, B store.before@1", "MONO FENCE " + again, storeZombie(1)},
	{"L6", 1, "SC, B store.before@3", "MONO FENCE " + again, storeZombie(3)},
	{"L7", 1, "ST, Q the table of an earlier moment", "HALT(slot_ahead) twice", storeRestored},
	{"L7", 1, "ST, the same, the slot not told", "LOSS", storeRestoredUntold},
	{"L8", 1, "ST, Q DELETE", "HALT(checkpoint_missing) twice", storeRowGone},
	{"B1", 1, "SK, P sink.row=kill@3, 5 a write", againN, libSink(failpoint.SinkRow, 3, 5, 4)},
	{"B1", 1, "SK, P sink.row=kill@14, 5 a write", againN, libSink(failpoint.SinkRow, 14, 5, 4)},
	{"B1", 1, "SC, P call.after=kill@2, 5 a write", againN, libSidecar(failpoint.CallAfter, 2, 5, 4)},
	{"B1", 1, "SC, P call.after=kill@8, 5 a write", againN, libSidecar(failpoint.CallAfter, 8, 5, 4)},
	{"B2", 1, "SC, P store.before=kill@1, 5 a write", againN, libSidecar(failpoint.StoreBefore, 1, 5, 5)},
	{"B2", 1, "SC, P store.before=kill@2, 5 a write", againN, libSidecar(failpoint.StoreBefore, 2, 5, 5)},
}

// libSink kills the sink in lib mode; at most so many transactions come again.
func libSink(point failpoint.Point, ordinal, batch, repeats int) func(*scene) {
	return func(s *scene) {
		s.lib(batch).base()
		s.writeMany(12)
		sink := s.startSink(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.startSidecar("")
		s.killed(sink, point)
		s.write()
		s.startSink("")
		s.seen("again %v", s.judge(min(repeats, 1), repeats).Repeats)
	}
}

// libSidecar kills the sidecar in lib mode.
func libSidecar(point failpoint.Point, ordinal, batch, repeats int) func(*scene) {
	return func(s *scene) {
		s.lib(batch).base()
		s.writeMany(12)
		s.startSink("")
		sidecar := s.startSidecar(fmt.Sprintf("%s=kill@%d", point, ordinal))
		s.killed(sidecar, point)
		s.write()
		s.startSidecar("")
		s.seen("again %v", s.judge(min(repeats, 1), repeats).Repeats)
	}
}

// thrownOff ends the walsender of the slot's holder and waits until another one reads.
func (s *scene) thrownOff(next *sidecar) {
	s.Helper()
	holder := s.holder()
	s.until("somebody else reads the slot", func() bool {
		if now := s.holder(); now != "" && now != holder && next.streams() {
			return true
		}
		if s.holder() == holder {
			s.ask(s.source.DSN, "SELECT pg_terminate_backend($1::text::int)::text", holder)
		}
		return false
	})
}

// storeZombie holds an owner before it moves the row, lets a second one move on, and lets
// the first go.
func storeZombie(ordinal int) func(*scene) {
	return func(s *scene) {
		s.lib(1).base()
		s.writeMany(ordinal)
		s.startSink("")
		gate := s.gate()
		first := s.startSidecar(fmt.Sprintf("store.before=block:%s@%d", gate, ordinal))
		s.witnessed(first, failpoint.StoreBefore, "block")
		second := s.startSidecar("")
		s.thrownOff(second)
		s.writeMany(3)
		s.arrived()
		s.release(gate)
		s.until("the first gives way", func() bool {
			_, err := first.Wait(time.Millisecond)
			return err == nil || first.waits("standby")
		})
		s.seen("first: %s", first.fate())
		s.write()
		s.seen("again %v", s.judge(1, 1).Repeats)
		require.Empty(s.T, second.halt())
	}
}

// fate is how a sidecar has ended, or that it has not.
func (c *sidecar) fate() string {
	select {
	case <-c.ended:
		return fmt.Sprintf("halt %q", c.halt())
	default:
		return "runs"
	}
}

const storeTable = "replicant_checkpoints"

// storeRestored brings the table of an earlier moment back.
func storeRestored(s *scene) {
	s.lib(1).base()
	s.store.Exec(s.T, "CREATE TABLE backup AS SELECT * FROM "+storeTable)
	s.startSink("")
	sidecar := s.startSidecar("")
	s.writeMany(3)
	s.arrived()
	s.stop(sidecar)
	s.sampled()
	s.store.Exec(s.T, "BEGIN; DELETE FROM "+storeTable+"; INSERT INTO "+storeTable+" SELECT * FROM backup; COMMIT")
	s.halts(s.startSidecar(""), core.HaltSlotAhead)
}

// storeRestoredUntold does the same where the slot was not told what was lost.
func storeRestoredUntold(s *scene) {
	s.lib(1).base()
	s.store.Exec(s.T, "CREATE TABLE backup AS SELECT * FROM "+storeTable)
	s.startSink("")
	sidecar := s.startSidecar("status.before=block:" + s.gate())
	s.writeMany(3)
	s.arrived()
	s.witnessed(sidecar, failpoint.StatusBefore, "block")
	s.kill(sidecar)
	s.sampled()
	s.store.Exec(s.T, "BEGIN; DELETE FROM "+storeTable+"; INSERT INTO "+storeTable+" SELECT * FROM backup; COMMIT")
	s.startSidecar("")
	s.write()
	s.arrived()
	report := s.log()
	s.seen("again %v", report.Repeats)
	require.NoError(s.T, report.AtMost(1, 3))
	require.Len(s.T, report.Repeats, 1)
}

// storeRowGone deletes the row of a slot that has moved.
func storeRowGone(s *scene) {
	s.lib(1).base()
	s.startSink("")
	s.sampled()
	s.store.Exec(s.T, "DELETE FROM "+storeTable)
	s.write()
	s.halts(s.startSidecar(""), core.HaltCheckpointMissing)
}
