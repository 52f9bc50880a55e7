package checkpoint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// TestDecideMatrix lists every combination of stored state, slot state and intent, so
// that a row nobody thought of cannot exist.
func TestDecideMatrix(t *testing.T) {
	const db = "shop"
	good := Slot{Present: true, Plugin: "pgoutput", Logical: true, Database: db}
	type want struct {
		action Action
		halt   core.HaltCode
	}
	// index: stored, then slot absent/present, then intent none/forward/adopt/both
	table := map[Stored][2][4]want{
		At: {
			{{halt: core.HaltSlotMissing}, {halt: core.HaltSlotMissing}, {halt: core.HaltSlotMissing}, {halt: core.HaltSlotMissing}},
			{{action: Resume}, {action: Resume}, {action: Resume}, {action: Resume}},
		},
		Absent: {
			{{halt: core.HaltGoForwardRequired}, {action: CreateSlot}, {halt: core.HaltGoForwardRequired}, {action: CreateSlot}},
			{{halt: core.HaltCheckpointMissing}, {halt: core.HaltCheckpointMissing}, {action: StoreBase}, {action: StoreBase}},
		},
		Claimed: {
			{{halt: core.HaltGoForwardRequired}, {action: CreateSlot}, {halt: core.HaltGoForwardRequired}, {action: CreateSlot}},
			{{halt: core.HaltGoForwardRequired}, {action: StoreBase}, {action: StoreBase}, {action: StoreBase}},
		},
	}
	for stored, bySlot := range table {
		for present, byIntent := range bySlot {
			for n, want := range byIntent {
				slot := Slot{}
				if present == 1 {
					slot = good
				}
				intent := Intent{Database: db, GoForward: n&1 != 0, AdoptSlot: n&2 != 0}
				t.Run(fmt.Sprintf("stored=%d/present=%d/forward=%v/adopt=%v", stored, present, intent.GoForward, intent.AdoptSlot), func(t *testing.T) {
					action, err := Decide(stored, slot, intent)
					if want.halt != "" {
						requireHalt(t, err, want.halt)
						return
					}
					require.NoError(t, err)
					require.Equal(t, want.action, action)
				})
				// A busy slot means standby, whatever else is true.
				slot.Busy = true
				action, err := Decide(stored, slot, intent)
				require.NoError(t, err)
				require.Equal(t, Standby, action)
			}
		}
	}
	_, err := Decide(Stored(9), Slot{}, Intent{GoForward: true})
	requireHalt(t, err, core.HaltInvariant)
}

func TestDecideRefusesForeignSlots(t *testing.T) {
	good := Slot{Present: true, Plugin: "pgoutput", Logical: true, Database: "shop"}
	for name, row := range map[string]struct {
		spoil func(*Slot)
		want  core.HaltCode
	}{
		"physical":    {func(s *Slot) { s.Logical, s.Plugin = false, "" }, core.HaltSlotPlugin},
		"plugin":      {func(s *Slot) { s.Plugin = "test_decoding" }, core.HaltSlotPlugin},
		"database":    {func(s *Slot) { s.Database = "other" }, core.HaltSlotDatabase},
		"two phase":   {func(s *Slot) { s.TwoPhase = true }, core.HaltSlotTwoPhase},
		"invalidated": {func(s *Slot) { s.Invalidated = "wal_removed" }, core.HaltSlotInvalidated},
	} {
		t.Run(name, func(t *testing.T) {
			for _, stored := range []Stored{Absent, Claimed, At} {
				slot := good
				row.spoil(&slot)
				_, err := Decide(stored, slot, Intent{Database: "shop", GoForward: true, AdoptSlot: true})
				requireHalt(t, err, row.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	for name, row := range map[string]struct {
		claimed, started, flush, walEnd core.LSN
		verdict                         Verdict
		halt                            core.HaltCode
	}{
		"all equal":                   {10, 10, 10, 10, Stream, ""},
		"slot behind":                 {10, 10, 5, 20, Stream, ""},
		"claim above the start":       {12, 10, 10, 20, Stream, ""},
		"slot ahead by one":           {10, 10, 11, 20, 0, core.HaltSlotAhead},
		"claim below the start":       {9, 10, 8, 20, Reconnect, ""},
		"source behind by one":        {21, 21, 10, 20, 0, core.HaltSourceBehind},
		"claim lost":                  {0, 10, 10, 20, 0, core.HaltCheckpointMissing},
		"ahead wins over a reconnect": {9, 10, 10, 20, 0, core.HaltSlotAhead},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, err := Judge(row.claimed, row.started, row.flush, row.walEnd)
			if row.halt != "" {
				requireHalt(t, err, row.halt)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.verdict, verdict)
		})
	}
}

func TestStateOf(t *testing.T) {
	require.Equal(t, Absent, StateOf(core.Checkpoint{}))
	require.Equal(t, Claimed, StateOf(core.Checkpoint{Epoch: 3}))
	require.Equal(t, At, StateOf(core.Checkpoint{Epoch: 3, Position: 7}))
	require.Equal(t, At, StateOf(core.Checkpoint{Position: 7}))
}

func requireHalt(t *testing.T, err error, code core.HaltCode) {
	t.Helper()
	h, ok := core.AsHalt(err)
	require.True(t, ok, "want halt %s, got %v", code, err)
	require.Equal(t, code, h.Code)
}

// TestDecideBegun lists every combination of what is known of a copy with what is stored, the
// slot, the way to copy and the operator's word: nothing but an initial copy follows one that
// was not completed, and nothing but an incremental one a copy beside the stream.
func TestDecideBegun(t *testing.T) {
	const incomplete = "snapshot_incomplete"
	names := map[Action]string{Resume: "resume", CreateSlot: "create", StoreBase: "base", CopyInitial: "copy", DropLeftover: "drop"}
	// by begun, stored and slot absent/present: with no snapshot none, forward, adopt; initial, redo; incremental
	table := map[Begun]map[Stored][2][6]string{
		BegunNothing: {
			Absent: {
				{"go_forward_required", "create", "go_forward_required", "copy", "copy", "create"},
				{"checkpoint_missing", "checkpoint_missing", "base", incomplete, "drop", "checkpoint_missing"},
			},
			Claimed: {
				{"go_forward_required", "create", "go_forward_required", "copy", "copy", "create"},
				{"go_forward_required", "base", "base", incomplete, "drop", "base"},
			},
		},
		BegunUnknown: {
			Absent: {
				{"go_forward_required", "create", "go_forward_required", "copy", "copy", "create"},
				{"checkpoint_missing", "checkpoint_missing", "base", incomplete, "drop", "checkpoint_missing"},
			},
			Claimed: {
				{"go_forward_required", "create", "go_forward_required", "copy", "copy", "create"},
				{incomplete, incomplete, "base", incomplete, "drop", incomplete},
			},
		},
		BegunInitial: {
			Absent: {
				{incomplete, incomplete, incomplete, "copy", "copy", incomplete},
				{incomplete, incomplete, incomplete, incomplete, "drop", incomplete},
			},
			Claimed: {
				{incomplete, incomplete, incomplete, "copy", "copy", incomplete},
				{incomplete, incomplete, incomplete, incomplete, "drop", incomplete},
			},
		},
		BegunBeside: {
			Absent: {
				{incomplete, incomplete, incomplete, incomplete, incomplete, "create"},
				{incomplete, incomplete, incomplete, incomplete, incomplete, "base"},
			},
			Claimed: {
				{incomplete, incomplete, incomplete, incomplete, incomplete, "create"},
				{incomplete, incomplete, incomplete, incomplete, incomplete, "base"},
			},
		},
	}
	intents := [6]Intent{
		{}, {GoForward: true}, {AdoptSlot: true}, {Snapshot: SnapshotInitial}, {Snapshot: SnapshotInitial, SnapshotRedo: true}, {Snapshot: SnapshotIncremental},
	}
	for begun, byStored := range table {
		byStored[At] = [2][6]string{
			{"slot_missing", "slot_missing", "slot_missing", "slot_missing", "slot_missing", "slot_missing"},
			{"resume", "resume", "resume", "resume", "resume", "resume"},
		}
		for stored, bySlot := range byStored {
			for present, byIntent := range bySlot {
				slot := Slot{Name: "shop_slot"}
				if present == 1 {
					slot = Slot{Name: "shop_slot", Present: true, Plugin: "pgoutput", Logical: true, Database: "shop"}
				}
				for n, want := range byIntent {
					intent := intents[n]
					intent.Database, intent.Begun = "shop", begun
					action, err := Decide(stored, slot, intent)
					got := names[action]
					if h, ok := core.AsHalt(err); ok {
						got = strings.TrimPrefix(string(h.Code), "data_gap.")
					}
					require.Equal(t, want, got, "begun=%d stored=%d present=%d intent=%d", begun, stored, present, n)
				}
			}
		}
	}
}

// TestDecideSaysWhatToType: a halt over an unfinished copy has the commands, and never one that
// would stream past it or drop what is somebody else's.
func TestDecideSaysWhatToType(t *testing.T) {
	good := Slot{Name: "shop_slot", Present: true, Plugin: "pgoutput", Logical: true, Database: "shop"}
	forward := Intent{Database: "shop", GoForward: true, Begun: BegunInitial}
	_, err := Decide(Claimed, good, forward)
	require.ErrorContains(t, err, "--snapshot=initial --snapshot-redo")
	require.ErrorContains(t, err, "SELECT pg_drop_replication_slot('shop_slot')")
	_, err = Decide(Claimed, Slot{}, forward)
	require.ErrorContains(t, err, "start with --snapshot=initial")
	require.NotContains(t, err.Error(), "pg_drop")
	lost := good
	lost.Invalidated = "wal_removed"
	_, err = Decide(Claimed, lost, forward)
	requireHalt(t, err, core.HaltSnapshotIncomplete)
	foreign := good
	foreign.Database = "other"
	_, err = Decide(Claimed, foreign, forward)
	requireHalt(t, err, core.HaltSlotDatabase)
	forward.Begun = BegunUnknown
	_, err = Decide(Claimed, good, forward)
	require.ErrorContains(t, err, "either an initial copy was not completed")
	require.ErrorContains(t, err, "SELECT pg_drop_replication_slot('shop_slot')")
	forward.Begun = BegunBeside
	_, err = Decide(Claimed, good, forward)
	require.ErrorContains(t, err, "--snapshot=incremental")
}

// TestDecideInitialSnapshot: a copy begins only where there is neither slot nor position,
// and only the operator's word lets the slot of an unfinished one go.
func TestDecideInitialSnapshot(t *testing.T) {
	good := Slot{Present: true, Plugin: "pgoutput", Logical: true, Database: "shop"}
	intent := Intent{Database: "shop", Snapshot: SnapshotInitial}
	redo := intent
	redo.SnapshotRedo = true
	decide := func(stored Stored, slot Slot, intent Intent) Action {
		t.Helper()
		action, err := Decide(stored, slot, intent)
		require.NoError(t, err)
		return action
	}
	for _, stored := range []Stored{Absent, Claimed} {
		require.Equal(t, CopyInitial, decide(stored, Slot{}, intent))
		require.Equal(t, CopyInitial, decide(stored, Slot{}, redo))
		_, err := Decide(stored, good, intent)
		requireHalt(t, err, core.HaltSnapshotIncomplete)
		require.Equal(t, DropLeftover, decide(stored, good, redo))
		busy := good
		busy.Busy = true
		require.Equal(t, Standby, decide(stored, busy, redo))
		lost := good
		lost.Invalidated = "wal_removed"
		require.Equal(t, DropLeftover, decide(stored, lost, redo))
		for name, spoil := range map[string]func(*Slot){
			"physical": func(s *Slot) { s.Logical = false }, "plugin": func(s *Slot) { s.Plugin = "wal2json" },
			"database": func(s *Slot) { s.Database = "other" }, "two phase": func(s *Slot) { s.TwoPhase = true },
		} {
			slot := good
			spoil(&slot)
			_, err := Decide(stored, slot, redo)
			require.Error(t, err, name)
		}
		without := redo
		without.Snapshot = SnapshotNone
		_, err = Decide(stored, good, without)
		require.Error(t, err)
	}
	require.Equal(t, Resume, decide(At, good, redo))
	_, err := Decide(At, Slot{}, redo)
	requireHalt(t, err, core.HaltSlotMissing)
}
