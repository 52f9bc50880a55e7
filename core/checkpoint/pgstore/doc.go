// Package pgstore keeps checkpoint rows in one Postgres table, which it makes on first
// use. A row changes only by one guarded statement that returns it, so two sidecars can
// never both believe in a claim, and a write that is executed late matches nothing.
//
// What it has answered is flushed to the disk of that server: synchronous_commit off is
// refused when a connection is opened, switched on for the connection, and looked at again
// in every write.
package pgstore
