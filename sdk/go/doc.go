// Package sink serves a core.Sink written in Go over the gRPC contract of
// proto/sink/v1, so that an author writes callbacks and nothing else:
//
//	func main() { sink.Main(mySink{}) }
//
// The package finds out which of core's one-method interfaces the sink implements and
// advertises exactly these. It checks every request, hands rows over as views on the
// received bytes, runs the calls of a stream one after the other, keeps overtaken
// sidecars out where the sidecar holds the checkpoint, turns panics into INTERNAL
// without a value in it, and stops gracefully.
//
// FromStore goes one step further: from a store with transactions it makes a sink that
// keeps the checkpoint, with claims, epochs, gap test, skip and lineage.
//
// Memory handed to a sink (tuples, messages, byte slices) is valid until the callback
// returns. A *core.Relation stays valid, and equal descriptions are mostly the same
// pointer.
package sink
