package snapshot

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutant is a run with one mistake. The search must find it, and its shortest
// counterexample must have the known length.
type mutant struct {
	name  string
	run   Run
	depth int
	// long ones are searched for with REPLICANT_MODEL=long alone.
	long bool
}

var (
	ignoring = with(plain, func(r *Run) { r.Ignores = true })
	swept    = with(again, func(r *Run) { r.Sweep = true })
	oldAdded = with(added, func(r *Run) { r.OldServer = true })
	anewAll  = with(anew, func(r *Run) { r.ClearsAll = true })
)

var mutants = []mutant{
	{"no entries", changed(plain, noEntries), 8, false},
	{"window opened after the SELECT", changed(plain, windowAfterSelect), 7, false},
	{"high mark read before the SELECT", changed(plain, highBeforeSelect), 5, false},
	{"high mark is the flushed LSN", changed(visibleFirst, highIsFlushed), 6, false},
	{"applied before the frontier", changed(plain, noFrontier), 6, false},
	{"no visibility check", changed(streamedFirst, noVisibilityCheck), 8, false},
	{"no writer wait after a reconnect", changed(streamedFirst, noWriterWait), 9, false},
	{"one set a table, wiped at each apply", changed(plain, oneSetPerTable), 12, false},
	{"only the new key recorded", changed(plain, newKeyOnly), 9, false},
	{"truncate does not taint", changed(plain, truncateKept), 8, false},
	{"a row with a hole dropped, no merge", changed(plain, noMerge), 13, false},
	{"the same, sink ignores holes", changed(ignoring, noMerge), 13, false},
	{"no repair list", changed(plain, noRepairList), 13, false},
	{"merged by key instead of repaired", changed(plain, noRepairList|mergeHoles), 10, false},
	{"repair note not written ahead", changed(plain, noteNotAhead), 14, false},
	{"token stored before the chunk", changed(plain, tokenFirst), 9, false},
	{"done on the reader's word", changed(plain, readersWord), 9, false},
	{"epoch not checked", changed(plain, noEpoch), 9, false},
	{"clear in the first chunk, of every row", changed(anewAll, clearInFirstChunk), 12, false},
	{"clear in the first chunk, origin not changed by the stream", changed(anew, clearInFirstChunk|originKept), 17, true},
	{"chunk overtakes received transactions", changed(plain, overtakes), 19, false},
	{"chunk overtakes received transactions, entries at durable", changed(plain, overtakes|recordedAtDurable), 19, true},
	{"sink inserts rows of chunks only where there are none", changed(plain, insertIfAbsent), 13, false},
	{"sink writes NULL for unchanged", changed(plain, nullForUnchanged), 13, false},
	{"key change takes the value of the new key's row", changed(swept, newKeyFirst), 13, false},
	{"sweep forgets what the stream touched", changed(swept, sweepForgetsStream), 13, false},
	{"lib, redelivered key change not repaired", changed(lib, noRedeliveryRepair), 22, true},
	{"added table, no wait for its writers", changed(added, noAddedWait), 15, true},
	{"added table, old server, no reconnect", changed(oldAdded, noReconnect), 17, false},
	{"standby, replay not waited for", changed(standby, noReplayWait), 8, false},
	{"failover, applied before the frontier", changed(failover, noFrontier), 6, false},
}

// TestMutantsAreCaught: a search that cannot see a mistake proves nothing.
// REPLICANT_TRACE=1 prints the counterexamples.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range mutants {
		if m.long && os.Getenv("REPLICANT_MODEL") != "long" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			result, err := Explore(m.run, Options{StatesMax: statesMax})
			require.NoError(t, err)
			caught(t, result, m.depth)
		})
	}
}

// TestKeylessMutantsAreCaught does the same for tables without a key.
func TestKeylessMutantsAreCaught(t *testing.T) {
	for _, m := range []struct {
		name    string
		changes Change
		depth   int
	}{
		{"transactions inside the snapshot applied", insideApplied, 8},
		{"snapshot forgotten at the attach", snapshotForgotten, 8},
		{"later transactions not held", laterNotHeld, 8},
		{"a second attempt does not clear", notCleared, 8},
		{"no visibility check", visibilityNotChecked, 8},
		{"no writer wait after a reconnect", writersNotAwaited, 9},
	} {
		t.Run(m.name, func(t *testing.T) {
			result, err := ExploreKeyless(m.changes, Options{StatesMax: statesMax})
			require.NoError(t, err)
			caught(t, result, m.depth)
		})
	}
}

func caught(t *testing.T, result Result, depth int) {
	t.Helper()
	require.NotEmpty(t, result.Violation, "%d states and nothing found", result.States)
	require.Equal(t, depth, result.Depth, "%s", told(result))
	require.Len(t, result.Trace, depth)
	if os.Getenv("REPLICANT_TRACE") != "" {
		t.Log(told(result))
	}
}
