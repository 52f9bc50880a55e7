//go:build race

package programtest

// raced says that the program is built with the race detector, as the tests are.
const raced = true
