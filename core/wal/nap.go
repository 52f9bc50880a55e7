package wal

import "time"

const (
	// napLength is how long messages may gather after a read.
	napLength = 200 * time.Microsecond
	// napLeast is the rest below which a pause is not worth its system call.
	napLeast = 20 * time.Microsecond
	// napDense is the time between two reads below which traffic counts as dense.
	napDense = time.Millisecond
)

// napper decides whether to pause before a read that would block.
//
// A reader that is faster than the walsender falls asleep between any two messages, and
// the walsender then pays a wake-up for each one. A pause while traffic is dense lets
// messages gather. There is none when traffic is sparse, so latency does not suffer,
// when more is waiting than was read, or when the caller itself took that long.
type napper struct {
	off   bool
	last  time.Time // end of the last read
	dense bool      // the last read came soon after the one before
	full  bool      // the last read filled its buffer
}

func (n *napper) before() {
	if n.off || !n.dense || n.full {
		return
	}
	if rest := napLength - time.Since(n.last); rest > napLeast {
		nap(rest)
	}
}

func (n *napper) after(full bool) {
	if n.off {
		return
	}
	now := time.Now()
	n.dense = now.Sub(n.last) < napDense
	n.last, n.full = now, full
}
