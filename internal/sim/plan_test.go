package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// plan is what a seed fixes for the whole of its simulation.
type plan struct {
	major    int
	sidecars int
	// lib: the checkpoint lies in a store of the sidecar's own, written once for storeBatch
	// transactions. Otherwise the sink keeps it.
	lib        bool
	storeBatch int
	remote     bool // gRPC between sidecar and sink
	unfenced   bool // a sink that keeps the checkpoint and no epoch
	messages   bool
	large      bool // the sink takes transactions in pieces
	shapes     bool // columns are added
	tellShapes bool // the sink is told
	resume     bool
	quiet      bool // no heartbeat
	streaming  bool // transactions in progress are asked for
	resident   int  // bytes of them that stay in memory
	restores   bool // the owner of the checkpoint goes back once
	early      bool // faults begin before the first position is stored
	limits     core.SinkLimits
	delivery   pipeline.Delivery
	// The workload and how long the faults last.
	transactions, burst int
	chaos               time.Duration
}

// String is one line for people.
func (p *plan) String() string {
	mode := p.delivery.Mode.String()
	if p.lib {
		mode = fmt.Sprintf("lib, %d a write", max(p.storeBatch, 1))
	}
	words := fmt.Sprintf("%s, as Postgres %d, %d sidecars", mode, p.major, p.sidecars)
	for word, on := range map[string]bool{
		"gRPC": p.remote, "unfenced": p.unfenced, "messages": p.messages, "large": p.large, "shapes": p.shapes,
		"told": p.tellShapes, "restored": p.restores, "early": p.early, "resume state": p.resume,
		"streaming": p.streaming,
	} {
		if on {
			words += ", " + word
		}
	}
	return words
}

// drawPlan makes the plan of a seed.
func drawPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	coin := func(n int) bool { return rng.IntN(n) == 0 }
	p := plan{
		major: 14 + rng.IntN(5), sidecars: 1, messages: coin(2), large: coin(2), shapes: coin(3), tellShapes: coin(2),
		resume: coin(2), quiet: coin(2), early: coin(3), restores: coin(8),
		transactions: 200 + rng.IntN(800), burst: 1 + rng.IntN(20), chaos: 40*time.Minute + time.Duration(rng.IntN(120))*time.Minute,
	}
	switch rng.IntN(4) {
	case 0:
		p.delivery.Mode = pipeline.ModeTransaction
	case 1:
		p.delivery.Mode = pipeline.ModeBatch
	case 2:
		p.lib = true
	case 3:
		p.lib, p.storeBatch = true, 2+rng.IntN(20)
	}
	p.remote = coin(4)
	if coin(2) {
		p.streaming, p.resident = true, 1<<10+rng.IntN(16<<10)
	}
	if coin(3) {
		p.sidecars = 2
	}
	if !p.lib && coin(8) {
		p.unfenced, p.early = true, false
	}
	if p.large && coin(2) {
		p.limits.RequestBytes = 6<<10 + rng.IntN(20<<10)
	}
	if coin(2) {
		p.limits.PreferredBytes = 2<<10 + rng.IntN(10<<10)
	}
	p.limits.CallDuration = time.Duration(1+rng.IntN(10)) * time.Minute
	p.delivery.MaxTransactions = 1 + rng.IntN(60)
	if coin(3) {
		p.delivery.MaxDelay = time.Duration(rng.IntN(2000)) * time.Millisecond
	}
	if coin(3) {
		p.delivery.MaxSpan = int64(1<<10 + rng.IntN(64<<10))
	}
	return p
}
