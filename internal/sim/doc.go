// Package sim runs the whole sidecar in simulated time: the real core/wal and
// core/pipeline between a model of Postgres and a model of a sink, all in one
// testing/synctest bubble, so that hours pass in seconds.
//
//	wal, workload   the source: WAL as a list of records that tie as real ones do
//	server, sender  connections, catalog, the slot, the walsender
//	link            the network: bytes are cut, held up and lost
//	sink, fate      a sink that is slow, hangs, refuses, executes late, restarts, regresses
//	rows            a checkpoint store of the sidecar's own, with outages and late writes
//	port            what a sidecar sends, held against the rules of a session
//	sidecar         a supervisor that starts, kills, freezes and drains sidecars
//	chaos           the schedule of a seed
//
// The judges sit where things become irrevocable: where the server is told a position,
// where a sink's store changes, where the sidecar's row moves. They hold invariants I1
// to I9 of package core at every step. When the faults end, all that was published must
// have arrived exactly, and the slot must have settled.
//
// A seed fixes the schedule and every fault. It does not fix how goroutines interleave
// at one instant, so a failure may need a few runs to come back:
//
//	make sim SEEDS=200
//	go test ./internal/sim -run TestSeeds -seed 17
package sim
