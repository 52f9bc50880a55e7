// Package snapshot reads rows of the source beside the stream: which tables the
// publications stream, in which shape, and their rows under a given snapshot. Both kinds
// of copy stand on it, the initial one and the incremental one.
//
// What it promises: it reads exactly the rows and columns that the publications would
// stream, as the text that the stream would print, and says so only from one place
// (Table.Columns, Table.From). It writes nothing at the source, delivers nothing and
// decides nothing: that is done in core/pipeline.
//
// It is given a way to connect (Source) rather than an address, so that the one list of
// pinned settings, which makes snapshot bytes equal stream bytes, stays where the
// replication connection is.
package snapshot
