// Package selftest runs the suite against the reference sink and against each of its
// defects, and says which cases find which.
package selftest
