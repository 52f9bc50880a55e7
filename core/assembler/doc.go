// Package assembler turns decoded messages into whole transactions. It is pure: no
// clock, goroutine, input or output, context or logger, so that every decision can be
// tested as a table.
//
// It guards four promises of the stream: transactions are framed (Begin, changes,
// Commit) and their end LSNs rise; every row names a relation that was described;
// every row is as wide as its relation; a column without a value is never passed off
// as NULL. What breaks one of them is a halt, and the assembler stays halted.
//
// Transactions in progress (streaming) are held as they came, above a bound outside of
// memory (Spill), and taken by the same rules when their commit was read: Push of a Stream
// Commit opens the transaction, and Replay gives its content piece by piece. What is
// rolled back touches nothing. See docs/adr/0009-streams-held-and-replayed.md.
//
// Rows are packed once, into memory that comes from recycled slabs. A cut (Take,
// TakeChanges) hands rows out together with a Mark; Release gives memory back in the
// order of the marks. Nothing that was handed out is written to before its release.
package assembler
