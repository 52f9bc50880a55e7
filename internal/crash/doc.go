// Package crash runs a program and ends it at a chosen call to the kernel: the n-th one
// that touches storage or the network is not made, its process or the whole process tree
// is killed by SIGKILL instead, or the call fails because the disk is full. Counting n up
// from 1 until the program survives visits every state that a crash can leave behind.
//
// The program needs no preparation: any language, static or not, many threads, many
// processes, a Postgres backend among them. It runs under a seccomp filter that reports
// the counted calls to this process, which lets each go on, or not. Nothing is traced, so
// a debugger may still be attached.
//
// # What is counted
//
// The classes say which calls count. Of open only what may create or cut a file, of write
// only what goes to a file or a socket: terminals, pipes and event counters do not count.
// All threads of all processes of the tree are counted together, in the order in which the
// kernel reports them. Counting begins when the program itself begins: neither our own
// preparation nor the opening of shared libraries is in it.
//
// # What is repeatable
//
// A process with one thread, fed with the same input, makes the same calls in the same
// order, and its n-th call is the same one in every run. With several threads or
// processes the order between them is the scheduler's; the calls of each keep their order.
// A program that writes by the clock, such as a Go program that logs progress, or a
// Postgres server with its checkpointer and WAL writer, has other counts each time: choose
// one process with Select, and arm it when it is where it should be.
//
// A signal adds no call: since Linux 5.19 a reported call waits through signals that do
// not kill, and before that a call which is reported again is counted once. A handler
// without SA_RESTART may see EINTR where it saw none before.
//
// # What a hit means
//
// The call at which a process is killed has not happened and never will. While the tree is
// killed no other counted call is let through, so the storage stays as it was at the hit,
// but for calls that other threads had begun before. SIGKILL keeps the page cache: what was
// written and not synced is still there, so a forgotten fsync is not seen. Memory-mapped
// writes are seen by nobody; io_uring is refused with ENOSYS, so that programs fall back
// to calls that can be counted. A program of a foreign instruction set is killed by SIGSYS.
//
// # Processes
//
// A small keeper, this same binary started again, stands between us and the program. It
// adopts what the program leaves behind, so a run has no survivors: when the program has
// ended, when the context ends, and when this process dies, the rest of its tree is killed.
// An environment variable of our own makes the binary a keeper before main begins. Run
// reports the program's own wait status.
//
// Where the kernel or a container forbids all this, Start returns ErrUnavailable.
package crash
