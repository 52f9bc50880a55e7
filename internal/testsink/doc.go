// Package testsink is the sink that judges us: a small sink on sdk/go whose store is a
// Postgres, so that what a run did is read by SQL afterwards. It is for tests alone.
//
// It writes one or both of two things in the transaction that stores the checkpoint:
//
//	mirror   tables of the same names, all columns text, holding what the source prints
//	log      testsink.log, one row per change, without any unique constraint: what takes
//	         effect twice stands there twice
//
// Messages go to testsink.message. The checkpoint is a row of testsink.stream, locked
// first in every transaction. Run as a program (cmd) it is set up by the environment; see
// Config. Package process starts and kills it, package judge reads what it wrote.
//
// It is late on purpose: a call that has begun goes on although its caller left, and
// commits if it may. A careful sink would give up; one that does not is what a sidecar
// must be safe against.
//
// Failpoints stand before the transaction, behind the locked row, after each row, before
// the commit and before the answer: see internal/failpoint. When sink.row is armed each
// row is written by itself, so that exactly that many rows are in the open transaction.
package testsink
