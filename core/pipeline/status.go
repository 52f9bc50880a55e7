package pipeline

import (
	"sync/atomic"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// State is one word of a closed set.
type State string

// The states.
const (
	StateStarting        State = "starting"
	StateStandby         State = "standby"
	StateCatchingUp      State = "catching_up"
	StateStreaming       State = "streaming"
	StateSinkUnavailable State = "sink_unavailable"
	StateSourceAway      State = "source_unavailable"
	StateStoreAway       State = "store_unavailable"
	StateDraining        State = "draining"
	StateHalted          State = "halted"
	StateStopped         State = "stopped"
)

// Status is a copy of what a running pipeline shows. It holds no row value.
type Status struct {
	State State
	Since time.Time
	// Reason says in our own words why the state is not a healthy one.
	Reason string

	StreamID, Slot string
	Epoch          uint64
	Mode           Mode
	Source         core.SourceIdentity
	ServerVersion  int
	Sink           core.Capabilities
	StandbyHolder  uint32 // process id at the server that holds the slot

	Received, Durable, Confirmed, WALEnd core.LSN
	// LagBytes is WAL end minus durable. LagSeconds is the age of the oldest commit
	// that is not durable, as far as it was read; 0 when all is.
	LagBytes   int64
	LagSeconds float64

	// Copy is the newest copy of tables; nil if there was none in this run.
	Copy *CopyStatus

	// Guard is what the slot costs the source.
	Guard SlotGuard
	// Published is what the publications stream.
	Published Published

	Counters
	Sessions, Rewound uint64
	InFlight          bool
	// InProgress is how many transactions came in part and have not committed; Spilled is
	// what is on disk of such, in bytes.
	InProgress int
	Spilled    int64
	// LastProgress is when the durable position last moved, or was found to have
	// nothing left to do.
	LastProgress time.Time
	// LastError is the reason of the newest session that ended early; value free.
	LastError string
	LastHalt  *core.Halt
}

// CaughtUp reports that nothing that was received waits for the sink.
func (s Status) CaughtUp() bool { return s.State == StateStreaming }

// board is where the loop publishes and everybody reads: one writer, an atomic pointer,
// no lock.
type board struct{ current atomic.Pointer[Status] }

func newBoard(o Options) *board {
	b := &board{}
	b.current.Store(&Status{State: StateStarting, Since: time.Now(), StreamID: o.StreamID, Slot: o.Source.Slot})
	return b
}

// update replaces the status by a changed copy. Two goroutines of one session may
// write; neither loses the other's change.
func (b *board) update(change func(*Status)) {
	for {
		before := b.current.Load()
		after := *before
		change(&after)
		if after.State != before.State {
			after.Since = time.Now()
		}
		if b.current.CompareAndSwap(before, &after) {
			return
		}
	}
}

func (b *board) state(s State, reason string) {
	b.update(func(st *Status) { st.State, st.Reason = s, reason })
}
