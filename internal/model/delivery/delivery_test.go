package delivery

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// statesMax is above the largest set.
const statesMax = 15_000_000

// one is the usual budget: one timeout, one restart of the sink process.
var one = Budget{Timeouts: 1, SinkRestarts: 1}

var (
	sinkOwned  = Protocol{Budget: one}
	sinkBatch  = Protocol{Budget: one, Batch: true}
	lib        = Protocol{Budget: one, Lib: true}
	libBatched = Protocol{Budget: one, Lib: true, Batch: true}
)

// set is one search in which the protocol must hold. States is the size of the whole
// space: another number means that the model changed, or that states are lost.
type set struct {
	name     string
	protocol Protocol
	states   int
}

// with varies a protocol.
func with(p Protocol, vary func(*Protocol)) Protocol {
	vary(&p)
	return p
}

// inAllModes makes one set of each mode.
func inAllModes(name string, vary func(*Protocol), states ...int) []set {
	modes := []set{
		{"sink-owned", sinkOwned, 0}, {"sink-owned batch", sinkBatch, 0},
		{"lib", lib, 0}, {"lib batched", libBatched, 0},
	}
	modes = modes[:len(states)]
	for i := range modes {
		modes[i] = set{modes[i].name + name, with(modes[i].protocol, vary), states[i]}
	}
	return modes
}

// quickSets take about a minute on two cores.
func quickSets() []set {
	var sets []set
	sets = append(sets, inAllModes("", func(*Protocol) {}, 261_480, 318_520, 462_716, 929_947)...)
	sets = append(sets, inAllModes(", slot regress",
		func(p *Protocol) { p.Budget.Regresses = 1 }, 524_764, 623_280, 1_006_900, 1_941_730)...)
	sets = append(sets, inAllModes(", slot moved ahead by others",
		func(p *Protocol) { p.Budget.Advances = 1 }, 560_036, 667_572, 805_266, 1_494_437)...)
	sets = append(sets, inAllModes(", checkpoint restored",
		func(p *Protocol) { p.Budget.Restores = 1 }, 2_709_842, 3_465_456, 1_883_601, 3_585_603)...)
	sets = append(sets, inAllModes(", idle stretch in the middle, slot regress",
		func(p *Protocol) { p.IdleMiddle, p.Budget.Regresses = true, 1 }, 524_764, 524_764, 790_399, 826_846)...)
	sets = append(sets, inAllModes(", skip commit_lsn < position",
		func(p *Protocol) { p.Changes = skipStartBelow }, 261_480, 318_520, 462_716, 929_947)...)
	sets = append(sets, inAllModes(", sink without fencing, rows only",
		func(p *Protocol) { p.Changes = noFencing | rowsOnly }, 396_250, 485_992)...)
	sets = append(sets, inAllModes(", a claim without an answer ends the session",
		func(p *Protocol) { p.Changes = claimFromTheTop }, 276_724, 334_566)...)
	return append(sets,
		set{"sink-owned, started from the slot, slot regress", with(sinkOwned, func(p *Protocol) {
			p.Changes, p.Budget.Regresses = startFromSlot, 1
		}), 1_161_164},
		set{"lib, instance learned by a plain read", with(lib, func(p *Protocol) { p.Changes = openReadsOnly }), 462_598},
		set{"lib batched, instance learned by a plain read", with(libBatched, func(p *Protocol) { p.Changes = openReadsOnly }), 931_197},
	)
}

// longSets take many minutes and up to 4 GB.
func longSets() []set {
	threePauses := func(p *Protocol) { p.Sidecars, p.Budget = 3, Budget{} }
	threeAndTimeout := func(p *Protocol) {
		p.Sidecars, p.Budget = 3, Budget{Timeouts: 1}
		p.Changes = readAndStartInOneStep
		if !p.Lib {
			p.Changes |= rereadInSession
		}
	}
	var sets []set
	sets = append(sets, inAllModes(", 2 timeouts, plain re-read inside the session",
		func(p *Protocol) { p.Budget.Timeouts, p.Changes = 2, rereadInSession }, 1_002_304, 1_458_964)...)
	sets = append(sets, inAllModes(", 3 incarnations", threePauses, 683_813, 730_564, 663_264, 1_457_383)...)
	sets = append(sets, inAllModes(", 3 incarnations, 1 timeout", threeAndTimeout, 1_843_755, 2_325_114, 2_161_359, 5_379_872)...)
	sets = append(sets, inAllModes(", sink without fencing, rows only, checkpoint restored",
		func(p *Protocol) { p.Changes, p.Budget.Restores = noFencing|rowsOnly, 1 }, 4_779_256, 6_182_198)...)
	twoTimeouts := func(p *Protocol) { p.Budget.Timeouts = 2 }
	return append(sets,
		set{"sink-owned, 2 timeouts", with(sinkOwned, twoTimeouts), 3_593_550},
		set{"lib, 2 timeouts", with(lib, twoTimeouts), 5_727_143},
		set{"lib batched, 2 timeouts", with(libBatched, twoTimeouts), 12_232_633},
		set{"sink-owned, two units in flight with the gap test", with(sinkOwned, func(p *Protocol) { p.Changes = twoInFlight }), 9_141_736},
	)
}

// TestProtocolHolds searches each set whole. REPLICANT_MODEL=long adds the large ones.
func TestProtocolHolds(t *testing.T) {
	sets := quickSets()
	if os.Getenv("REPLICANT_MODEL") == "long" {
		sets = append(sets, longSets()...)
	}
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			result, err := Explore(s.protocol, statesMax)
			require.NoError(t, err)
			require.Equal(t, None, result.Violation, "%s", told(result))
			require.Zero(t, result.Stuck, "states from which the settled end cannot be reached")
			require.Equal(t, s.states, result.States)
			lawful := s.protocol.Budget.Advances > 0 || s.protocol.Budget.Restores > 0
			require.Equal(t, lawful, result.Halted > 0, "only a foreign fault may halt: %d states halted", result.Halted)
			t.Logf("holds in %d states, %d of them halted", result.States, result.Halted)
		})
	}
}

// told is a counterexample as text.
func told(r Result) string {
	text := fmt.Sprintf("%s after %d steps:\n", r.Violation, r.Depth)
	for _, line := range r.Trace {
		text += "\t" + line + "\n"
	}
	return text
}
