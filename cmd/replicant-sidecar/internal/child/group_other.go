//go:build !linux

package child

// living counts every process that still has a number.
func living(int) bool { return true }
