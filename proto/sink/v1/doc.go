// Package sinkv1 is the contract between Replicant Sidecar and a sink, as Go.
//
// The .proto files of this directory are the contract itself; the *.pb.go files
// are generated from them and committed, so that nobody needs a generator to
// build. docs/protocol.md explains the rules that the comments name.
package sinkv1
