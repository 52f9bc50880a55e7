// Package chunks reads for an incremental snapshot: which tables there are, who may have
// written them, and their rows, a chunk at a time, each under a snapshot that shows what the
// stream had brought before. It decides nothing; core/snapshot/incremental says what to read.
package chunks
