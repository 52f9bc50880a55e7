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
	Name    string
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
	// Begun is what is stored of a copy that was begun, for a stream without a position.
	Begun Begun
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

// Begun is what is known of a copy that a start before this one began.
type Begun uint8

// What can be known.
const (
	// BegunNothing: none was begun, or the sink takes no rows of one.
	BegunNothing Begun = iota
	// BegunUnknown: the sink takes rows of a copy, and nobody keeps whether one was begun.
	BegunUnknown
	// BegunInitial: one that comes before the stream. It cannot be gone on with.
	BegunInitial
	// BegunBeside: one beside the stream. A slot without a position is the one that it was
	// begun for.
	BegunBeside
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
	switch {
	case slot.Busy:
		return Standby, nil
	case stored > At:
		return 0, halt(core.HaltInvariant, "a state of the checkpoint that the decision matrix does not know")
	case stored != At && slot.Present && intent.redoes(slot):
		return DropLeftover, nil
	}
	if slot.Present {
		if err := ours(slot, intent); err != nil {
			return 0, err
		}
	}
	if err := unfinished(stored, slot, intent); err != nil {
		return 0, err
	}
	switch {
	case slot.Present && slot.Invalidated != "":
		return 0, halt(core.HaltSlotInvalidated, "reason: "+slot.Invalidated)
	case stored == At && slot.Present:
		return Resume, nil
	case stored == At:
		return 0, halt(core.HaltSlotMissing, "there is a checkpoint and the slot does not exist")
	case intent.Snapshot == SnapshotInitial:
		return CopyInitial, nil
	case slot.Present && (intent.AdoptSlot || intent.Begun == BegunBeside):
		return StoreBase, nil
	case stored == Absent && slot.Present:
		return 0, halt(core.HaltCheckpointMissing, "the slot exists and no checkpoint is stored")
	case !intent.GoForward && intent.Snapshot != SnapshotIncremental:
		return 0, halt(core.HaltGoForwardRequired, "the checkpoint is empty and the sink is a state mirror")
	case slot.Present: // claimed: a crash between making the slot and storing the base
		return StoreBase, nil
	}
	return CreateSlot, nil
}

// unfinished refuses to stream past a copy that was begun and not completed, and says what to
// type instead. With a position there is none: a copy before the stream is complete by it, and
// one beside it looks after itself.
func unfinished(stored Stored, slot Slot, intent Intent) error {
	drop := "SELECT pg_drop_replication_slot('" + slot.Name + "')"
	redo := "; start once with --snapshot=initial --snapshot-redo, or run " + drop + " and start with --snapshot=initial"
	initial := intent.Snapshot == SnapshotInitial
	switch {
	case stored == At:
		return nil
	case intent.Begun == BegunBeside && intent.Snapshot != SnapshotIncremental:
		return CopyLeft()
	case intent.Begun == BegunInitial && slot.Present:
		return halt(core.HaltSnapshotIncomplete, "an initial copy was begun and not completed: the sink has a part of the tables"+redo)
	case intent.Begun == BegunInitial && !initial:
		return halt(core.HaltSnapshotIncomplete, "an initial copy was begun and not completed: the sink may have a part of the tables; start with --snapshot=initial")
	case initial && slot.Present:
		return halt(core.HaltSnapshotIncomplete, "the slot exists and the checkpoint is empty: the copy that made the slot was not completed"+redo)
	case stored == Claimed && slot.Present && intent.Begun == BegunUnknown && !intent.AdoptSlot:
		return halt(core.HaltSnapshotIncomplete, "the slot exists and the checkpoint is empty: either an initial copy was not completed, and the sink has a part of "+
			"the tables, or a start ended between making the slot and storing its position; the sink keeps no progress token, which would tell. Run "+
			drop+" and start with --snapshot=initial, or as before if no copy was ever begun")
	}
	return nil
}

// CopyLeft is the halt of a start that would stream past a copy beside the stream: rows that
// come to other keys meanwhile would be missed for good.
func CopyLeft() error {
	return core.NewHalt(core.HaltSnapshotIncomplete, "snapshot",
		"a copy beside the stream was begun and is not complete; start with --snapshot=incremental, which goes on with it, until it is")
}

// redoes reports whether the slot may be dropped because the operator said so: it is one
// that an initial snapshot of ours would have made. One that Postgres has given up may go
// too.
func (i Intent) redoes(slot Slot) bool {
	return i.Snapshot == SnapshotInitial && i.SnapshotRedo && i.Begun != BegunBeside &&
		slot.Logical && slot.Plugin == "pgoutput" && slot.Database == i.Database && !slot.TwoPhase
}

// ours refuses a slot that is not ours to read, whatever the checkpoint says.
func ours(slot Slot, intent Intent) error {
	switch {
	case !slot.Logical:
		return halt(core.HaltSlotPlugin, "the slot is a physical one")
	case slot.Plugin != "pgoutput":
		return halt(core.HaltSlotPlugin, "the slot's plugin is not pgoutput")
	case slot.Database != intent.Database:
		return halt(core.HaltSlotDatabase, "the slot belongs to another database")
	case slot.TwoPhase:
		return halt(core.HaltSlotTwoPhase, "the slot was made with two_phase on")
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
