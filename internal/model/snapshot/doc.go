// Package snapshot is the incremental snapshot as an explicit-state model, searched
// exhaustively by its tests. docs/snapshots.md explains the algorithm in words.
//
// # What is modelled
//
// A source with up to three keys, each row of a plain and a TOAST column, and up to three
// transactions: update without and with the TOAST column, key change, delete, insert,
// truncate, and a delete with a key change onto the freed key in one transaction. A WAL
// position is a count of commits. A commit may be streamed before it is visible, or be
// visible before it is flushed. The stream is received and delivered in order, in batches
// of any size. Two chunks of one table and a repair chunk are read in parallel, each with a
// window of its own. Everything that the sidecar holds in memory is lost by a crash, which
// may come at every step. A table may be added to the publication under an open writer; the
// server may be one that then forgets the table. The source may fail over, the reader may
// read on a standby. The sink may own the checkpoint or not, and may store or ignore an
// update of a row that it has not seen and that does not carry every column.
//
// A table without a key is a second, smaller model.
//
// # What is checked
//
// The sink equals the source at rest. Once a run is complete, the sink is the state at the
// checkpoint. In a fresh run of a sink that owns its checkpoint every row at the sink is, in
// every state, that of the checkpoint. And from every state rest can be reached.
//
// A Run can be varied: some changes are lawful and must still hold, the others are mutants,
// and the search must find their counterexample. Set REPLICANT_TRACE=1 to see it step by
// step.
//
// # What is not modelled
//
// Bounds of memory, how ranges are cut, changes of shape, partitions, errors of the wire.
package snapshot
