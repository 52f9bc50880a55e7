package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Kill is one SIGKILL that was confirmed by the wait status of its process.
type Kill struct {
	Who string    `json:"who"`
	PID int       `json:"pid"`
	At  time.Time `json:"at"`
}

// Between two kills of one process lies a random time within these bounds: long enough
// for work to begin again, short enough for many in half a minute.
const (
	killGapMin = 1500 * time.Millisecond
	killGapMax = 3500 * time.Millisecond
)

// chaos kills sink and sidecar, each on its own random clock, until ctx ends.
func chaos(ctx context.Context, o Options, s *stage) []Kill {
	if !o.Chaos {
		return nil
	}
	victims := []*actor{s.sidecar, s.sink}
	landed := make(chan []Kill)
	for n, victim := range victims {
		dice := rand.New(rand.NewPCG(o.Seed, uint64(1000+n)))
		go func() { landed <- killAtRandom(ctx, dice, victim, o) }()
	}
	var all []Kill
	for range victims {
		all = append(all, <-landed...)
	}
	return all
}

func killAtRandom(ctx context.Context, dice *rand.Rand, victim *actor, o Options) (list []Kill) {
	for {
		gap := killGapMin + time.Duration(dice.Int64N(int64(killGapMax-killGapMin)))
		if !until(ctx, time.Now().Add(gap)) {
			return list
		}
		at := time.Now()
		if pid, ok := victim.kill(); ok {
			list = append(list, Kill{victim.name, pid, at})
			if !o.Table {
				fmt.Fprintf(o.Out, "killed the %s, pid %d\n", victim.name, pid)
			}
		}
	}
}
