// Package fidelity lists interesting values of every type that Postgres and its contrib
// modules have, for the proof that a value has the same bytes on every road that it can
// take to a sink: the initial copy, a chunk of an incremental one, and the stream, as new
// row of an insert, new row of an update, old row of an update and of a delete. The proof
// itself is this package's test (make fidelity). It is for tests alone.
package fidelity
