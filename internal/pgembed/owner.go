package pgembed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ownerFile marks a directory as made here for throw-away. The process that
// made it holds a lock on the file for as long as it lives; the kernel drops
// the lock however it ends. So a directory is a leftover exactly when its
// owner file can be locked, whatever became of the process number in it.
const ownerFile = "owner"

type owner struct {
	Program string    `json:"program"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
}

const ownerProgram = "replicant-sidecar pgembed"

// claim writes and locks the owner file. It gets its name only when locked:
// no sweeper sees it free. The caller keeps the file open.
func (w workdir) claim() (*os.File, error) {
	text, err := json.Marshal(owner{Program: ownerProgram, PID: os.Getpid(), Since: time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	name := filepath.Join(w.base, ownerFile)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = lock(f)
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// leftover opens and locks the owner file of a directory whose owner is gone.
// It fails when the owner lives, or when the directory is none of ours.
func leftover(base string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(base, ownerFile), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("its owner lives: %w", err), f.Close())
	}
	var o owner
	if err := json.NewDecoder(f).Decode(&o); err != nil || o.Program != ownerProgram || o.PID <= 0 {
		return nil, errors.Join(errors.New("not an owner file of ours"), f.Close())
	}
	return f, nil
}

// lock takes the exclusive lock or fails at once.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
