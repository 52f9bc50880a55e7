// Package windows runs the fault matrix, docs/fault-matrix.md: every row of its groups
// against real processes and real Postgres, hit at the named place and judged by SQL. It
// consists of tests; `make windows` runs all rows, GROUP="U S" some groups, ROW=U7 one.
//
// Each row is one or more cases, each case one line: id, how it was hit, the witness, what
// had to hold, ok or FAIL. The ids are read from the document: a row, or a part of one,
// that no case serves is a failure, and so is a case whose place was not reached.
package windows
