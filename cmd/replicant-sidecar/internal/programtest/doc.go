// Package programtest holds the tests of the built program against real Postgres: the
// binary runs as a user would run it, with a sink that the test binary plays.
package programtest
