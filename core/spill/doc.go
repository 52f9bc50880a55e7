// Package spill is room on disk for what one process holds for a while: blocks of bytes,
// appended to a file and read back once, in order. Nothing in it outlives the process. A
// file loses its name as soon as it is open, so that a crash leaves nothing behind; what a
// crash between the two left is swept at the next start.
//
// Two promises: the files of one room never hold more than its limit, and a block comes
// back as it was written or not at all. Errors are *core.Halt, spill_exhausted or
// spill_failed, and hold no byte of a block.
package spill
