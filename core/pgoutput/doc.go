// Package pgoutput decodes the messages of Postgres' pgoutput plugin: bytes in, one
// Message out. It is pure and on the hot path: Begin, Commit, Insert, Update and Delete
// cost no allocation, and row images alias the frame that was given.
//
// The decoder trusts nothing: every length is checked against the frame, every byte
// must be accounted for, every letter and flag must be one that is documented. What is
// not understood is a halt and never a guess. Errors hold positions, counts and
// message letters, and no byte of a value or name.
//
// Sources: https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
// and the recorded streams in testdata; docs/pgoutput.md tells what they show where the
// page is silent.
package pgoutput
