package delivery

// Violation is what a search can find.
type Violation int8

// The violations. Each is a promise of the protocol that was broken.
const (
	None Violation = iota
	// Loss: acknowledged to Postgres, and never took effect.
	Loss
	// Ahead: the checkpoint is above something that never took effect.
	Ahead
	// Duplicate: took effect twice.
	Duplicate
	// SettledAgain: took effect although it ends at or below the stored row.
	SettledAgain
	// Hole: took effect with one missing before it, or out of order.
	Hole
	// WentBack: the stored position fell.
	WentBack
	// StaleWriter: an overtaken epoch or sender wrote.
	StaleWriter
	// FalseHalt: halted although nothing foreign happened.
	FalseHalt
	// SilentLoss: drained with something missing.
	SilentLoss
	// TooOften: more repeats than the faults allow.
	TooOften
)

var violationNames = [...]string{
	"none", "loss", "checkpoint above its data", "duplicate", "settled again", "hole",
	"position went back", "stale writer", "false halt", "silent loss", "repeats beyond the bound",
}

// String names the violation.
func (v Violation) String() string { return violationNames[v] }

// judge finds what is wrong with a state.
func (p *Protocol) judge(s *State) Violation {
	if s.Broken != None {
		return s.Broken
	}
	checkpoint := s.SinkPosition
	if p.Lib {
		checkpoint = s.RowPosition
	}
	for i, it := range p.layout {
		if it.kind == idle || s.Effects[i] > 0 {
			continue
		}
		if !s.Foreign && !p.sendable(int8(i), s.Confirmed) {
			return Loss
		}
		if checkpoint > it.start { // a start at the checkpoint would not send it
			return Ahead
		}
	}
	if p.Lib && !s.Foreign && p.repeats(s) > p.repeatsAllowed(s) {
		return TooOften
	}
	if p.drainedWithHole(s) {
		return SilentLoss
	}
	return None
}

func (p *Protocol) repeats(s *State) int8 {
	n := int8(0)
	for _, effects := range s.Effects {
		n += max(0, effects-1)
	}
	return n
}

// repeatsAllowed is one unit for each fault. Between message borders two transactions
// fit into a batch.
func (p *Protocol) repeatsAllowed(s *State) int8 {
	faults := p.Budget.Timeouts - s.Left.Timeouts + p.Budget.SinkRestarts - s.Left.SinkRestarts
	for i := 1; i < p.Sidecars; i++ {
		if s.Sidecars[i].At != fresh {
			faults++
		}
	}
	if p.Batch {
		faults *= 2
	}
	return faults
}

func (p *Protocol) drainedWithHole(s *State) bool {
	epoch := s.SinkEpoch
	if p.Lib {
		epoch = s.RowEpoch
	}
	if p.Budget.Restores > 0 || p.complete(s) {
		return false
	}
	for i := range p.Sidecars {
		if s.Sidecars[i].At == drained && s.Sidecars[i].Epoch == epoch {
			return true
		}
	}
	return false
}

// complete reports whether everything took effect.
func (p *Protocol) complete(s *State) bool {
	for i, it := range p.layout {
		if it.kind != idle && s.Effects[i] == 0 {
			return false
		}
	}
	return true
}

// final is the settled end: everything took effect and Postgres knows.
func (p *Protocol) final(s *State) bool { return s.Confirmed == lastEnd && p.complete(s) }
