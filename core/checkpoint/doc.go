// Package checkpoint holds the two decisions about positions, both pure: where a start
// may begin (Decide, Judge) and how far Postgres may be told (Ledger). It has no clock,
// goroutine or I/O. Every position in it is an end LSN.
package checkpoint
