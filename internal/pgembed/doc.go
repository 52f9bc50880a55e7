// Package pgembed finds a Postgres on this machine and runs a private server
// from it, for the demo, the benchmark and the tests. It is never part of the
// path that carries a user's data.
//
// A server started here listens on a unix socket in its own 0700 directory (on
// loopback too when asked), runs as another user when the caller is root,
// because Postgres refuses root, and leaves neither process nor file behind:
// the server dies with the process that started it, a small reaper removes its
// directory, and what even the reaper missed is swept by the next Start on the
// same machine.
package pgembed
