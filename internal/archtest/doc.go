// Package archtest keeps the house in order: its tests read the imports and sources of
// the whole tree and fail with the name of the wall that was crossed and the reason it
// stands there. Every wall also carries a planted breach that it must find, so that a
// wall which sees nothing is red too.
//
// It has tests only and imports the standard library and testify.
package archtest
