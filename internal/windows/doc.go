// Package windows runs the fault matrix, docs/fault-matrix.md: every row of its groups
// against real processes and real Postgres, hit at the named place and judged by SQL. It
// consists of tests; `make windows` runs all rows, GROUP="U S" some groups, ROW=U7 one.
//
// Each row is one or more cases, each case one line: id, how it was hit, the witness, what
// had to hold, ok or FAIL. The ids are read from the document: a row, or a part of one,
// that no case serves is a failure, and so is a case whose place was not reached. A run of
// whole groups fails too where a declared failpoint was not fired by them, or, of all groups, only at its
// first passage or only at a later one.
//
// A case is a line in a table of its file, which the file's init adds:
//
//	func init() { add(anyMajor, casesCopy) } // or 16, where older servers cannot
//
//	var casesCopy = []window{
//		{"P2", 1, "SC, P some.point=kill@1", exact, copyKilled(failpoint.Some, 1)},
//		{"P2", 1, "SC, P some.point=kill@3", exact, copyKilled(failpoint.Some, 3)},
//	}
//
// It gets a scene: a source, a sink and perhaps a store of the case's major (own, lib,
// batch choose otherwise), startSidecar and startSink with points armed, killed and
// witnessed for the proof of the hit, and judge for what must hold. scene.intent is how a
// stream without a checkpoint begins.
package windows
