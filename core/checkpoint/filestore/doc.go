// Package filestore keeps checkpoint rows as files of one directory, for a sidecar that
// stays on one machine.
//
// A row is replaced, never changed: a new file is written beside it and flushed, takes its
// name, and the folder is flushed. So a crash leaves the old row or the new one. A process
// holds an exclusive lock on each stream that it has touched, until Close; a second one is
// refused. A file that is torn, spoilt, of another format or of another stream halts; only
// a file that does not exist is no row.
package filestore
