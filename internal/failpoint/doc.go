// Package failpoint lets a test build be told to die, wait or fail at named places in
// the source, and proves that it did.
//
// It exists only under the build tag failpoints. Without the tag Hit is an empty
// function that the compiler inlines away: a release binary holds neither the code nor
// the names, and a test reads its symbols to see that.
//
// REPLICANT_FAILPOINTS arms points of one process:
//
//	point=action[:arg][@ordinal];...
//
//	kill             SIGKILL to this process: no deferred code, no flush
//	block:FILE       waits until FILE exists
//	delay:DURATION   waits that long, such as 200ms
//	error            Hit returns an error, where the call site takes one
//
// The ordinal is the passage that acts, counted from 1 for each point in each process; 1
// when it is left out. "3+" acts at the third passage and at every later one. A point may
// be armed more than once, with other ordinals.
//
// Before it acts a point appends "point ordinal pid action" to the file that
// REPLICANT_FAILPOINT_WITNESS names, written through to the disk: a driver believes a hit
// only with this line. A point, action or ordinal that is not understood, and armed points
// without a witness, are errors at the start of the program: see Load.
//
// All points stand in points.go. Tests keep that list and the source in step: each point
// has call sites, each in its room, and the runner of the fault matrix asks NotFired at its
// end which points no row has fired.
package failpoint
