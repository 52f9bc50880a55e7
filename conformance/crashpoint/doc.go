// Package crashpoint visits what a crash of a sink can leave behind: it kills the sink, or
// cuts its connection to its database, at the first moment of a call, at the second, and
// so on until the call survives, and lets the case look at the store after each.
//
// There are three ways, all behind conformance.Crasher:
//
//   - Calls counts the calls to the kernel that touch files or the network, in all threads
//     and processes of the sink, and kills it at the n-th, before that call is made. The
//     same n is the same place each time, so no moment is left out. Linux only, and only
//     where the sink is started by us.
//   - Proxy stands between the sink and its database and loses the connections after the
//     n-th piece that the sink sends: the database has it, its answer never arrives.
//   - Timed kills the sink after fractions of the time that the call takes. It needs
//     nothing but a way to kill, and proves less: its map says that it is a sample.
//
// A map without a single point is an error: nothing was proven. What SIGKILL cannot show
// is a sync that was forgotten, since the kernel keeps what was written.
package crashpoint
