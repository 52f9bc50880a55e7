// Package badsinks has one sink that keeps the contract, and a list of defects of which it
// can be given one. The suite must find each: that is how it is tested itself.
//
// The sink is written on the generated code alone. Its disk is a list of records in
// memory that outlives a kill, so a crash at the n-th write is exact and costs nothing.
package badsinks
