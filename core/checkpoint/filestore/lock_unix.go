//go:build unix

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the exclusive lock of an open file, or reports that another process (or
// another Store) has it. It ends with the file, however the process ends.
func lockFile(f *os.File) (held bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
