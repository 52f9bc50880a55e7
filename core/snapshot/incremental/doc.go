// Package incremental decides how tables are copied beside the running stream: what is
// read next, which of the rows that were read may still be delivered, what a unit's token
// says, and when a table and the run are done. internal/model/snapshot is the algorithm as
// a model; docs/snapshots.md tells it in words.
//
// A Run is pure: no clock, goroutine, channel or I/O. Whoever owns it tells it what the
// stream brought (Began, Change, Committed, Frontier), runs its Jobs and gives it their
// results, and sends its Steps between units of the stream. It promises
//
//   - that a row of a chunk goes out only where the stream has not given the sink a newer
//     one, and then as it is at the source at the position of the unit;
//   - that a key whose row the sink may hold without a column is on the repair list, and
//     that this list is durable before the transaction that made it so (NoteDue);
//   - that a token names every range and key that is not durable, so that a run goes on
//     from it after any crash.
//
// It relies on being made anew with each session, on steps being sent in the order in which
// they were taken, behind all transactions that were told before, and on one step or unit
// being in flight at a time.
package incremental
