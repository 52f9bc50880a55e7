package checkpoint

import "github.com/replicant-sidecar/replicant-sidecar/core"

// Stored is what the owner of the checkpoint holds for a stream.
type Stored uint8

// The three states. That it could not be read is none of them and never gets here.
const (
	Absent  Stored = iota // no row
	Claimed               // a row with an epoch, no position yet
	At                    // a row with a position
)

// StateOf reads the state off a checkpoint. A sink that does not fence has no epoch, so
// Claimed cannot be told from Absent there, and the stricter Absent counts.
func StateOf(c core.Checkpoint) Stored {
	switch {
	case c.Position != 0:
		return At
	case c.Epoch != 0:
		return Claimed
	}
	return Absent
}

// Slot is what the source knows of our slot.
type Slot struct {
	Present bool
	// Busy: another session streams from it, or another sidecar holds the bootstrap lock.
	Busy bool
	// Invalidated names why Postgres gave the slot up; empty while it is usable.
	Invalidated string
	Plugin      string
	Logical     bool
	Database    string
	TwoPhase    bool
}

// Intent is what the operator asked for.
type Intent struct {
	Database string
	// GoForward: new changes only; set by --go-forward-only and by append logs.
	GoForward bool
	AdoptSlot bool
	// Snapshot is how the rows reach the sink that exist before the slot does.
	Snapshot Snapshot
	// Armed: an incremental snapshot is stored as begun, so that a slot without a position
	// is the one that it was begun for.
	Armed bool
	// SnapshotRedo: the slot of an initial snapshot that was not completed may be dropped.
	SnapshotRedo bool
}

// Snapshot is a way to copy what was there before the stream.
type Snapshot uint8

// The ways.
const (
	// SnapshotNone copies nothing.
	SnapshotNone Snapshot = iota
	// SnapshotInitial copies before the stream begins, and from scratch if it fails.
	SnapshotInitial
	// SnapshotIncremental copies beside the stream.
	SnapshotIncremental
)

// Action is what a start does next.
type Action uint8

// The actions.
const (
	// Standby: somebody else is at work; try again from the top, claim nothing.
	Standby Action = iota + 1
	// Resume: START_REPLICATION at the stored position.
	Resume
	// CreateSlot: under the bootstrap lock claim, make the slot, store its consistent
	// point as an empty unit, then from the top.
	CreateSlot
	// StoreBase: under the bootstrap lock claim, store the slot's confirmed_flush as an
	// empty unit, then from the top. Nobody has read from the slot yet, or the operator
	// adopts it.
	StoreBase
	// CopyInitial: under the bootstrap lock claim, make the slot and export its snapshot,
	// copy, store the consistent point as completion, then from the top.
	CopyInitial
	// DropLeftover: under the bootstrap lock drop the slot of the copy that was not
	// completed, then from the top.
	DropLeftover
)

// Decide is the decision matrix of a start: one row per combination, no other input.
// A combination that is not listed halts.
func Decide(stored Stored, slot Slot, intent Intent) (Action, error) {
	if slot.Busy {
		return Standby, nil
	}
	if slot.Present {
		if stored != At && intent.redoes(slot) {
			return DropLeftover, nil
		}
		if err := usable(slot, intent); err != nil {
			return 0, err
		}
	}
	if stored != At && intent.Snapshot == SnapshotInitial && (stored == Absent || stored == Claimed) {
		if slot.Present {
			return 0, halt(core.HaltSnapshotIncomplete, "the slot exists and the checkpoint is empty: the copy that made the slot was not completed")
		}
		return CopyInitial, nil
	}
	switch {
	case stored == At && slot.Present:
		return Resume, nil
	case stored == At:
		return 0, halt(core.HaltSlotMissing, "there is a checkpoint and the slot does not exist")
	case slot.Present && (intent.AdoptSlot || intent.Armed):
		return StoreBase, nil
	case stored == Absent && slot.Present:
		return 0, halt(core.HaltCheckpointMissing, "the slot exists and no checkpoint is stored")
	case !intent.GoForward && intent.Snapshot != SnapshotIncremental:
		return 0, halt(core.HaltGoForwardRequired, "the checkpoint is empty and the sink is a state mirror")
	case stored == Claimed && slot.Present:
		return StoreBase, nil
	case stored == Claimed || stored == Absent:
		return CreateSlot, nil
	}
	return 0, halt(core.HaltInvariant, "a state of the checkpoint that the decision matrix does not know")
}

// redoes reports whether the slot may be dropped because the operator said so: it is one
// that an initial snapshot of ours would have made. One that Postgres has given up may go
// too.
func (i Intent) redoes(slot Slot) bool {
	return i.Snapshot == SnapshotInitial && i.SnapshotRedo &&
		slot.Logical && slot.Plugin == "pgoutput" && slot.Database == i.Database && !slot.TwoPhase
}

// usable refuses a slot that is not ours to read, whatever the checkpoint says.
func usable(slot Slot, intent Intent) error {
	switch {
	case !slot.Logical:
		return halt(core.HaltSlotPlugin, "the slot is a physical one")
	case slot.Plugin != "pgoutput":
		return halt(core.HaltSlotPlugin, "the slot's plugin is not pgoutput")
	case slot.Database != intent.Database:
		return halt(core.HaltSlotDatabase, "the slot belongs to another database")
	case slot.TwoPhase:
		return halt(core.HaltSlotTwoPhase, "the slot was made with two_phase on")
	case slot.Invalidated != "":
		return halt(core.HaltSlotInvalidated, "reason: "+slot.Invalidated)
	}
	return nil
}

// Verdict is what Judge says about a session that holds the slot and has claimed.
type Verdict uint8

// The verdicts that are no halt.
const (
	// Stream: go on.
	Stream Verdict = iota + 1
	// Reconnect: the claimed position is below the START position, so the stream would
	// begin with a hole. Connect again from the top.
	Reconnect
)

// Judge compares positions once the slot is ours and nobody else can move it: before
// that, a busy owner moves both between two reads, and a standby would halt for nothing.
func Judge(claimed, started, confirmedFlush, walEnd core.LSN) (Verdict, error) {
	switch {
	case claimed == 0:
		return 0, halt(core.HaltCheckpointMissing, "the claim returned no position although one was read before it")
	case confirmedFlush > claimed:
		return 0, core.NewHalt(core.HaltSlotAhead, "judge", "slot confirmed %s, checkpoint %s, %d bytes between them",
			confirmedFlush, claimed, uint64(confirmedFlush-claimed))
	case claimed > walEnd:
		return 0, core.NewHalt(core.HaltSourceBehind, "judge", "checkpoint %s, the source's WAL ends at %s", claimed, walEnd)
	case claimed < started:
		return Reconnect, nil
	}
	return Stream, nil
}

func halt(code core.HaltCode, detail string) error {
	return &core.Halt{Code: code, Op: "decide", Detail: detail}
}
