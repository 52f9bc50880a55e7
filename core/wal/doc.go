// Package wal is the only one that talks the replication protocol to Postgres, and the
// only one that confirms a position to it. It decodes nothing: a Batch holds frames as
// they came.
//
// # Promises
//
//   - A flush position told to Postgres never goes back: not below the one told before,
//     not below the confirmed_flush that Start was given. It never goes beyond what
//     was received. Zero is refused. Write, flush and apply are always the same number.
//     Only status.go builds such a message, and only one goroutine writes to the
//     socket once the stream has begun, with a deadline on each write.
//   - A status goes out at least once an interval, whether or not anybody reads.
//   - The settings that decide how Postgres prints values come from one list, travel in
//     the startup packet, and are read back before anything else is done.
//   - An error of the server is a *core.Halt or one of the errors to retry
//     (ErrSlotBusy, ErrConnectionLost). What is not known is a halt. No text of the
//     server's enters an error of ours, as it may hold values; the SQLSTATE does.
//   - A cancelled Read loses no byte.
//
// Pages: https://www.postgresql.org/docs/current/protocol-replication.html and
// https://www.postgresql.org/docs/current/protocol-logical-replication.html.
package wal
