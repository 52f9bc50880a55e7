// Package mirror writes the SQL of a sink that mirrors tables and takes snapshots: a few
// plain statements for each change and for each unit of a snapshot, with their arguments.
// It opens nothing and runs nothing. A SnapshotStore (package sdk/go) runs the statements,
// in their order, inside the store transaction of the unit.
//
// # What the store's tables need
//
// Beside its columns each table has two of its own, which Marks defines, and a unique
// index over its key, if it has one:
//
//	copied      true in a row that a snapshot wrote and no change has touched since
//	generation  that of the snapshot that wrote the row, or of the latest one when a change did
//
// # What the statements do
//
//   - A row of a snapshot replaces the whole row at its key, every column of it. It is never
//     an insert that gives way to a row that is there: that row may lack a column. A row that
//     the stream wrote stays the stream's.
//   - An insert or update of the stream sets the columns that it carries and makes the row the
//     stream's, of the generation that is given.
//   - A row that is not known yet, with a column that the stream did not carry: by Holes it is
//     stored with NULL there, or left out. A later unit of the snapshot brings it whole.
//   - A key change takes the columns that it does not carry from the row at the old key, and
//     only if there is none from the row at the new one. The other way round keeps a value
//     of another row.
//   - In a table without a key an update or delete touches exactly one of the rows that equal
//     the old one.
//   - A reset removes rows whose mark is copied, or all. A sweep removes rows of a lower
//     generation: neither this snapshot nor the stream has touched them since it began.
//
// The generation to give is SnapshotRow.Generation of the stream, as LoadSnapshot reads it.
//
// Values are given as the text that Postgres prints, or as Options.Value makes of it. It
// must convert truly or refuse with core.ReasonValueUnrepresentable.
package mirror
