//go:build race

package selftest_test

// raced says that the tests are built with the race detector.
const raced = true
