// Package pipeline is the one road from the replication stream to the sink and back to
// Postgres. All decisions sit in Machine, which is pure; the shell around it is three
// goroutines and one select:
//
//	pump     reads the socket and decodes                    (pump.go)
//	loop     owns the Machine and every number that matters  (loop.go)
//	deliver  calls the sink, one call at a time              (deliver.go)
//
// Run repeats sessions (session.go): a session is the life of one replication
// connection. Whatever is in doubt when it ends is resolved by the next one's start,
// which asks the sink where it stands; there is no other code for doubt.
package pipeline
