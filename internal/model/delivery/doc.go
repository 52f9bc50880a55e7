// Package delivery is the delivery protocol as an explicit-state model, searched
// exhaustively by its tests: the modes sink-owned, sink-owned batch, lib, and lib with a
// batched checkpoint. docs/delivery.md explains the protocol in words.
//
// # What is modelled
//
// One upstream with three transactions, a message and an idle stretch, on small
// integers chosen so that every tie seen on a real server occurs: the consistent point
// equals the first commit LSN, the end of a transaction equals the next commit LSN, a
// message's LSN equals the next commit LSN, and so does a keepalive's WAL end. Two or three
// sidecar incarnations, each of which may be left unscheduled at any step, for a while
// (a paused process) or for ever (a crash). A slot with one owner, freed at any time.
// Calls as messages that are executed late, after their sender gave up, or never. A sink
// process that restarts with an empty memory, the sink's store, and the sidecar's own
// store row. Budgets bound timeouts, restarts, an upstream crash that moves the slot
// back, a slot moved by somebody else, and a checkpoint restored from a backup.
//
// # What is checked, in every state
//
// What was acknowledged to Postgres has taken effect. What a restart at the checkpoint
// would not send again has taken effect. Sink-owned: no effect twice. Lib: no effect at
// or below the stored row, effects in order, and no more repeats than faults times the
// unit. Positions never go back. No write by an overtaken epoch or sender. No halt
// without a foreign fault. Nobody drains with a hole. And while a fresh incarnation is
// left and nobody halted, the settled end stays reachable.
//
// A Protocol can be varied: some changes are lawful and must still hold, the others are
// mutants, and the search must find their counterexample. Set REPLICANT_TRACE=1 to see
// it step by step.
//
// # What is not modelled
//
// A late claim of the store row (its sender id covers it), standbys that compete (the
// slot decides), snapshot chunks, the frames of a large transaction, content that
// differs between epochs, a restore that takes the epoch back too, a database session
// that outlives its sink process, two timelines. Store answers are taken as durable,
// row updates as linearizable, and the WAL of one timeline as fixed.
package delivery
