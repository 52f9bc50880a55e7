// Command mutants breaks the program on purpose and looks that a test notices.
//
// Each NNN-name.patch beside this file is one mistake: a unified diff that breaks one rule,
// behind lines that say which, and which test must turn red:
//
//	# what: the position that was received is confirmed
//	# rule: nothing is confirmed before it is durable (I1)
//	# test: ./core/checkpoint TestLedgerOrder
//	# env: NAME=value
//
// "test" is a package and a -run regexp, which is anchored at both ends, or a folder of
// Python tests and an expression for pytest's -k; it may be repeated, and then each of the
// tests must turn red. "env" is optional.
//
// The checkout is copied once, as it stands, uncommitted files included. There the named
// tests must pass as they are. Then each patch is applied, must compile, must make each of
// its tests fail, and is taken back. A patch that no longer applies or compiles, a test
// that does not exist, is skipped, hangs or dies without a word are failures too: what they
// would have shown is not known.
//
//	go run ./internal/mutants [-only 003,010] [-check] [-keep]
package main
