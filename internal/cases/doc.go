// Package cases holds tests named after public bug reports about change data capture
// from Postgres: what went wrong elsewhere, run here against every major. docs/cases.md
// lists them, one line each.
//
// A case runs statements on a database of its own while two roads stream from it, each
// with a slot of its own: one through gRPC to a sink behind a unix socket, one
// in-process under a role whose settings would print every value another way. What a
// sink was given must be equal to literals in the test, and after each case a small
// model is replayed from it and compared, as text, with the source's own tables.
package cases
