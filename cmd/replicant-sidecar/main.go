// Command replicant-sidecar streams Postgres changes to a sink over gRPC.
//
// This folder is the only one that sees the whole: it reads the configuration, wires the
// engine to a sink, takes signals and turns the end of a run into an exit code. Each
// command has a file of its own.
package main

import "os"

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }
