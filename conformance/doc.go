// Package conformance judges a sink over the wire: whether it keeps the contract of
// proto/sink/v1, and where it does not, which rule it breaks.
//
// It knows a sink by its address alone and shares no code with what it judges: neither
// the engine, nor the client, nor the SDK. What a table must show is worked out by a
// model of its own and compared with what a probe reads from the sink's store.
//
// A Case is one thing that is tried; Cases lists all of them, with ids that never change.
// A Target is the sink and what may be done to it: reached, started, killed. A Probe reads
// its store. A Crasher visits what a crash can leave behind. Run puts them together and
// gives a Summary.
//
// Nothing here prints, and no row value leaves the package unless Options.ShowValues asks.
package conformance
