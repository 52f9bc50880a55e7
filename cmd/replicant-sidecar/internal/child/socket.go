package child

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Socket is a unix socket's path in a private folder.
type Socket struct {
	dir  string
	lock *os.File
}

const socketPattern = "replicant-sink-"

// NewSocket makes a private folder, mode 0700, for a socket, and removes folders whose
// owner was killed. The path is short: a unix socket takes about a hundred bytes.
func NewSocket() (*Socket, error) {
	parent := os.TempDir()
	if len(parent) > 60 {
		parent = "/tmp"
	}
	sweep(parent)
	var err error
	for range 3 { // a sweep elsewhere may take a folder before its lock is held
		var s *Socket
		if s, err = makeSocket(parent); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func makeSocket(parent string) (*Socket, error) {
	dir, err := os.MkdirTemp(parent, socketPattern) // mode 0700
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "lock")
	lock, err := os.Create(path)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		_, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Socket{dir: dir, lock: lock}, nil
}

// Listen is the socket's address in the form REPLICANT_SINK_LISTEN has.
func (s *Socket) Listen() string { return "unix:" + filepath.Join(s.dir, "sink.sock") }

// Close removes the folder with all that is in it.
func (s *Socket) Close() error {
	err := os.RemoveAll(s.dir)
	return errors.Join(err, s.lock.Close())
}

// sweep removes folders of ours whose lock nobody holds.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, socketPattern+"*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !mine(info) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue // not ours, or being made
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}

func mine(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
