package delivery

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutant is a protocol with one mistake. The search must find the named violation, and
// its shortest counterexample must have the known length.
type mutant struct {
	name     string
	protocol Protocol
	want     Violation
	depth    int
}

// broken makes a protocol with changes, and with the fault that shows them.
func broken(p Protocol, changes Change, faults ...func(*Budget)) Protocol {
	p.Changes = changes
	for _, fault := range faults {
		fault(&p.Budget)
	}
	return p
}

func regress(b *Budget)     { b.Regresses = 1 }
func advance(b *Budget)     { b.Advances = 1 }
func restore(b *Budget)     { b.Restores = 1 }
func twoTimeouts(b *Budget) { b.Timeouts = 2 }

// skipping compares commit LSNs with positions of some origins.
func skipping(p Protocol, from origin, changes Change, idleMiddle bool) Protocol {
	p.SkipStart, p.Changes, p.IdleMiddle = from, changes, idleMiddle
	return p
}

// evidence: what counts as done, and when Postgres is told.
var evidence = []mutant{
	{"sink-owned: confirm what was received", broken(sinkOwned, ackReceived), Loss, 8},
	{"lib: confirm what was received", broken(lib, ackReceived), Loss, 7},
	{"sink-owned: confirm what the sink returned", broken(sinkOwned, ackWhatSinkReturned), Loss, 11},
	{"sink-owned: unknown taken for done", broken(sinkOwned, unknownIsDone), Loss, 11},
	{"lib: unknown taken for done", broken(lib, unknownIsDone), Ahead, 11},
	{"lib: row written before the sink's OK", broken(lib, rowBeforeSink), Ahead, 9},
	{"lib: row written without compare-and-set", broken(lib, rowWithoutCompareAndSet), SettledAgain, 20},
	{"sink-owned: idle confirmed past an open unit", broken(sinkOwned, ackIdleWhileOpen), Loss, 9},
	{"sink-owned: idle told to the slot only", broken(sinkOwned, ackIdleUnstored), FalseHalt, 33},
	{"append log: idle told to the slot only, no slot-ahead test", broken(sinkOwned, ackIdleUnstored|noSlotAheadTest, advance), SilentLoss, 9},
	{"sink-owned: idle told to the slot before it is stored", broken(sinkOwned, ackIdleBeforeStored), FalseHalt, 32},
	{"lib: idle told to the slot before it is stored", broken(lib, ackIdleBeforeStored), FalseHalt, 40},
	{"sink-owned: empty unit answered OK, not stored", broken(sinkOwned, sinkIgnoresEmptyUnits), FalseHalt, 35},
	{"sink-owned batch: message confirmed past an open batch", broken(sinkBatch, messagePastBatch), Loss, 8},
	{"lib batched: message confirmed past an open batch", broken(libBatched, messagePastBatch), FalseHalt, 18},
}

// fences: who may still write.
var fences = []mutant{
	{"sink-owned: epoch checked outside the transaction", broken(sinkOwned, epochOutsideTransaction), StaleWriter, 16},
	{"sink-owned: no fencing", broken(sinkOwned, noFencing), StaleWriter, 15},
	{"sink-owned: claim without sender id", broken(sinkOwned, claimWithoutSender), StaleWriter, 15},
	{"sink-owned: expected_checkpoint not tested, store restored", broken(sinkOwned, noExpectedCheckpointTest, restore), Hole, 14},
	{"sink-owned: no expected_checkpoint in a first unit, store restored", broken(sinkOwned, noExpectedInFirstUnit, restore), Hole, 20},
	{"sink-owned: two units in flight without the gap test", broken(sinkOwned, twoInFlight|noExpectedCheckpointTest), Hole, 9},
	{"lib: sent again without a higher sequence", broken(lib, noSequence, twoTimeouts), SettledAgain, 15},
	{"lib: sink without fencing", broken(lib, noMemoryFence), SettledAgain, 17},
	{"lib batched: sink without fencing", broken(libBatched, noMemoryFence), SettledAgain, 18},
	{"lib: no instance id, sink restarts", broken(lib, noInstance), SettledAgain, 21},
	{"lib: row verified before the open, not after", broken(lib, verifyRowBeforeOpen), SettledAgain, 21},
	{"lib: row verified before a read of the instance", broken(lib, verifyRowBeforeOpen|openReadsOnly), SettledAgain, 21},
	{"lib: row not verified after the open", broken(lib, noVerify), SettledAgain, 19},
}

// beginnings: where a session starts.
var beginnings = []mutant{
	{"sink-owned: position read before the claim", broken(sinkOwned, positionFromRead), FalseHalt, 19},
	{"lib: position read before the claim", broken(lib, positionFromRead), FalseHalt, 18},
	{"sink-owned: slot ahead judged before the slot is ours", broken(sinkOwned, slotAheadBeforeOwned), FalseHalt, 13},
	{"lib: slot ahead judged before the slot is ours", broken(lib, slotAheadBeforeOwned), FalseHalt, 15},
	{"sink-owned: claimed below the start and not reconnected, store restored", broken(sinkOwned, noReconnectBelowStart, restore), Hole, 20},
	{"sink-owned: unreadable taken for empty, slot moved ahead", broken(sinkOwned, unreadableIsEmpty, advance), SilentLoss, 9},
	{"lib: unreadable taken for empty, slot regress", broken(lib, unreadableIsEmpty, regress), SettledAgain, 20},
	{"lib: started from the slot, slot regress", broken(lib, startFromSlot, regress), SettledAgain, 20},
	{"sink-owned: START_REPLICATION at position + 1", broken(sinkOwned, startPlusOne), Hole, 9},
	{"sink-owned: hand-off stored as consistent point - 1", broken(sinkOwned, handoffMinusOne), FalseHalt, 7},
}

// quantities: one number, and what happens where a second one slips in.
var quantities = []mutant{
	{"sink-owned: skip end_lsn < position", broken(sinkOwned, skipEndBelow), Duplicate, 13},
	{"lib: skip end_lsn < position", broken(lib, skipEndBelow), SettledAgain, 15},
	{"sink-owned batch: skipped by the batch, re-read in the session", broken(sinkBatch, skipWholeBatch|rereadInSession), Duplicate, 14},
	{"sink-owned: skip commit_lsn <= position", skipping(sinkOwned, fromAnywhere, 0, false), Hole, 9},
	{"lib: skip commit_lsn <= position", skipping(lib, fromAnywhere, 0, false), Hole, 8},
	{"sink-owned: skip commit_lsn <= position at the sink only", skipping(sinkOwned, fromAnywhere, skipStartAtSinkOnly, false), Ahead, 9},
	{"sink-owned: skip commit_lsn <= hand-off", skipping(sinkOwned, fromHandoff, 0, false), Hole, 9},
	{"sink-owned: skip commit_lsn <= end of a transaction", skipping(sinkOwned, fromTransaction, 0, false), Hole, 13},
	{"sink-owned: skip commit_lsn <= position of a message", skipping(sinkOwned, fromMessage, 0, false), Ahead, 21},
	{"sink-owned: skip commit_lsn <= idle position", skipping(sinkOwned, fromIdle, 0, true), Hole, 17},
	{"sink-owned: commit_lsn stored, end_lsn compared", broken(sinkOwned, storeCommitLSN), Duplicate, 13},
	{"sink-owned: commit_lsn stored and compared, end_lsn confirmed", broken(sinkOwned, commitLSNForm), Loss, 19},
}

// TestMutantsAreCaught: a search that cannot see a mistake proves nothing.
// REPLICANT_TRACE=1 prints the counterexamples.
func TestMutantsAreCaught(t *testing.T) {
	for _, group := range [][]mutant{evidence, fences, beginnings, quantities} {
		for _, m := range group {
			t.Run(m.name, func(t *testing.T) {
				result, err := Explore(m.protocol, statesMax)
				require.NoError(t, err)
				require.Equal(t, m.want.String(), result.Violation.String(), "%s", told(result))
				require.Equal(t, m.depth, result.Depth, "%s", told(result))
				require.Len(t, result.Trace, m.depth)
				if os.Getenv("REPLICANT_TRACE") != "" {
					t.Log(told(result))
				}
			})
		}
	}
}
