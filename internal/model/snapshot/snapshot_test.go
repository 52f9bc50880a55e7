package snapshot

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// statesMax is above the largest set.
const statesMax = 35_000_000

var (
	everything = []int{opUpdate, opUpdateToast, opMove, opDelete, opInsert, opTruncate}
	noTruncate = []int{opUpdate, opUpdateToast, opMove, opDelete, opInsert}

	plain = Run{Keys: 2, Transactions: 2, Crashes: 1, Parts: [2]uint8{0b010, 0b100}, Menu: everything, FreedKey: true}

	streamedFirst = with(plain, func(r *Run) { r.StreamedFirst, r.Menu = true, noTruncate })
	visibleFirst  = with(plain, func(r *Run) { r.VisibleFirst = true })
	anew          = with(plain, func(r *Run) { r.Restarts = 1 })
	again         = with(plain, func(r *Run) { r.Again = true })
	added         = with(plain, func(r *Run) { r.Added, r.Menu = true, noTruncate })
	failover      = with(plain, func(r *Run) { r.Failover = true })
	standby       = with(plain, func(r *Run) { r.ReadStandby, r.Menu = true, noTruncate })
	lib           = with(plain, func(r *Run) { r.Lib = true })
)

// with varies a run.
func with(r Run, vary func(*Run)) Run {
	vary(&r)
	return r
}

// changed adds deviations to a run.
func changed(r Run, c Change) Run {
	r.Changes |= c
	return r
}

// set is one search in which the algorithm must hold. States is the size of the whole
// space: another number means that the model changed, or that states are lost.
type set struct {
	name   string
	run    Run
	states int
	stuck  bool // it is asked that rest can be reached from everywhere
}

// quickSets take about half a minute on two cores.
var quickSets = []set{
	{"2 keys, 2 transactions, 1 crash", plain, 652_103, true},
	{"sink ignores updates with holes of unseen rows", with(plain, func(r *Run) { r.Ignores = true }), 658_761, true},
	{"streamed before visible", streamedFirst, 895_553, true},
	{"streamed before visible, 3 transactions, updates and key changes", with(streamedFirst, func(r *Run) {
		r.Transactions, r.Menu, r.FreedKey = 3, []int{opUpdate, opMove}, false
	}), 461_107, false},
	{"visible before flushed", visibleFirst, 818_912, true},
	{"only what is at or below the high mark delivered first", changed(plain, unitsUpToHigh), 672_659, true},
	{"again over wrong rows, replaced", again, 732_850, true},
	{"again over wrong rows, swept", with(again, func(r *Run) { r.Sweep = true }), 713_562, true},
	{"again over wrong rows, swept, sink ignores holes", with(again, func(r *Run) { r.Sweep, r.Ignores = true, true }), 713_562, true},
	{"added table, old server, reconnect", with(added, func(r *Run) { r.OldServer = true }), 722_393, true},
	{"reader on a standby", standby, 1_043_627, true},
	{"lib, no key changes", with(lib, func(r *Run) {
		r.Menu = []int{opUpdate, opUpdateToast, opDelete, opInsert, opTruncate}
	}), 428_822, true},
}

// longSets take many minutes and up to 5 GB.
var longSets = []set{
	{"2 crashes", with(plain, func(r *Run) { r.Crashes = 2 }), 1_035_791, true},
	{"3 keys in 2 chunks", with(plain, func(r *Run) { r.Keys, r.Parts = 3, [2]uint8{0b0010, 0b1100} }), 4_012_761, true},
	{"3 transactions", with(plain, func(r *Run) { r.Transactions, r.FreedKey = 3, false }), 31_182_230, false},
	{"begun anew, sink clears snapshot rows", anew, 1_376_344, true},
	{"begun anew, sink clears every row", with(anew, func(r *Run) { r.ClearsAll = true }), 1_489_220, true},
	{"begun anew, sink clears every row and ignores holes", with(anew, func(r *Run) { r.ClearsAll, r.Ignores = true, true }), 1_394_352, true},
	{"added table", added, 1_923_782, true},
	{"added table, streamed before visible", with(added, func(r *Run) {
		r.StreamedFirst, r.Menu = true, []int{opUpdate, opMove, opDelete}
	}), 2_017_768, true},
	{"added table, 3 transactions", with(added, func(r *Run) {
		r.Transactions, r.FreedKey, r.Menu = 3, false, []int{opUpdate, opMove, opInsert}
	}), 30_419_307, false},
	{"failover, slots synchronised", failover, 2_224_401, true},
	{"failover, not synchronised, or the start refused", with(failover, func(r *Run) { r.NoSlotSync = true }), 13_393_126, false},
	{"lib, redelivered key changes repaired", lib, 3_224_394, true},
	{"= token not atomic, after the chunk", changed(plain, tokenApart), 1_472_010, false},
	{"= clear in the first chunk, snapshot rows only", changed(anew, clearInFirstChunk), 1_905_264, false},
	{"= entries at durable, units in order", changed(plain, recordedAtDurable), 1_246_736, false},
}

// TestAlgorithmHolds searches each set whole. REPLICANT_MODEL=long adds the large ones.
func TestAlgorithmHolds(t *testing.T) {
	sets := quickSets
	if os.Getenv("REPLICANT_MODEL") == "long" {
		sets = append(sets, longSets...)
	}
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) {
			if s.states < 2_000_000 {
				t.Parallel()
			}
			result, err := Explore(s.run, Options{StatesMax: statesMax, Stuck: s.stuck})
			require.NoError(t, err)
			holds(t, result, s.states)
		})
	}
}

// TestKeylessHolds searches the copy of a table without a key.
func TestKeylessHolds(t *testing.T) {
	result, err := ExploreKeyless(0, Options{StatesMax: statesMax, Stuck: true})
	require.NoError(t, err)
	holds(t, result, 66_033)
}

func holds(t *testing.T, result Result, states int) {
	t.Helper()
	require.Empty(t, result.Violation, "%s", told(result))
	require.Zero(t, result.Stuck, "states from which rest cannot be reached")
	require.Equal(t, states, result.States)
	t.Logf("holds in %d states", result.States)
}

// told is a counterexample as text.
func told(r Result) string {
	text := fmt.Sprintf("%s after %d steps, %d states:\n", r.Violation, r.Depth, r.States)
	for _, line := range r.Trace {
		text += "\t" + line + "\n"
	}
	return text
}
