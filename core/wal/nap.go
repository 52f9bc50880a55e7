package wal

import "time"

const (
	// napLength is how long messages may gather after a read.
	napLength = 300 * time.Microsecond
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
//
// Measured with BenchmarkDrain (Postgres 18, unix socket, two busy cores; medians of
// four; the spread is wide, so only the direction counts):
//
//	                           frames a read  rows/s         own CPU  walsender CPU
//	100k transactions, no nap        4.6      46k            0.91 s   1.04 s
//	  200 us                        61        58k            0.35 s   0.87 s
//	300 x 1000 rows, no nap          4.5      184k           0.78 s   1.10 s
//	  200 us                       134        247k           0.35 s   1.00 s
//
// In a second round 100 us and 200 us drained 250k and 245k rows/s, 300 us 290k, 400 us
// 305k, 500 us 255k and 1 ms 186k: a unix socket queues some 277 small messages, and
// beyond that the walsender waits for the reader.
type napper struct {
	off   bool
	last  time.Time // end of the last read
	dense bool      // the last read came soon after the one before
	full  bool      // the last read filled its buffer
}

func (n *napper) before() {
	if n.off {
		return
	}
	if rest := n.rest(time.Now()); rest > 0 {
		nap(rest)
	}
}

// rest is how long to pause before a read that begins now.
func (n *napper) rest(now time.Time) time.Duration {
	if !n.dense || n.full {
		return 0
	}
	if rest := napLength - now.Sub(n.last); rest > napLeast {
		return rest
	}
	return 0
}

func (n *napper) after(full bool) {
	if !n.off {
		n.note(time.Now(), full)
	}
}

// note learns from a read that ended now.
func (n *napper) note(now time.Time, full bool) {
	n.dense = now.Sub(n.last) < napDense
	n.last, n.full = now, full
}
