package filestore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// name is the file of a stream, without its ending: what is readable of the stream's id,
// and a hash that keeps two ids apart.
func name(streamID string) string {
	const readable = 40
	plain := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, streamID)
	sum := sha256.Sum256([]byte(streamID))
	return plain[:min(len(plain), readable)] + "." + hex.EncodeToString(sum[:8])
}

const (
	rowEnding  = ".checkpoint"
	newEnding  = ".checkpoint.new"
	lockEnding = ".lock"
	fileMode   = 0o600
	dirMode    = 0o700

	worldWritable = 0o002
)

// plain refuses whatever is no regular file; found is false when there is nothing.
func (s *Store) plain(op, file string) (found bool, err error) {
	info, err := s.root.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fault(op, err)
	case !info.Mode().IsRegular():
		return false, invalid("%s is no regular file", file)
	}
	return true, nil
}

// load reads the row of a stream and sees to it that what was read stays: a process that
// was killed, or a write of ours that failed, may have left it without the last flush.
func (s *Store) load(op, streamID string) (r checkpoint.Record, found bool, err error) {
	file := name(streamID) + rowEnding
	if found, err := s.plain(op, file); err != nil || !found {
		return r, false, err
	}
	f, err := s.root.Open(file)
	if err != nil {
		return r, false, fault(op, err)
	}
	defer f.Close()
	whole, err := io.ReadAll(io.LimitReader(f, bytesMax+1))
	if err == nil && !s.flushed[streamID] {
		err = f.Sync()
		if err == nil {
			err = s.syncDir()
		}
		s.flushed[streamID] = err == nil
	}
	if err != nil {
		return r, false, fault(op, err)
	}
	if len(whole) > bytesMax {
		return r, false, invalid("the checkpoint file has more than %d bytes", bytesMax)
	}
	r, err = decode(streamID, whole)
	return r, err == nil, err
}

// store replaces the row of a stream. After an error the old or the new row is there.
func (s *Store) store(op, streamID string, r checkpoint.Record) error {
	whole, err := encode(streamID, r)
	if err != nil {
		return err
	}
	fresh := name(streamID) + newEnding
	if _, err := s.plain(op, fresh); err != nil {
		return err
	}
	s.flushed[streamID] = false
	if err := s.writeNew(fresh, whole); err != nil {
		return fault(op, err)
	}
	if err := s.root.Rename(fresh, name(streamID)+rowEnding); err != nil {
		return fault(op, err)
	}
	if err := s.syncDir(); err != nil {
		return fault(op, err)
	}
	s.flushed[streamID] = true
	return nil
}

func (s *Store) writeNew(file string, whole []byte) error {
	f, err := s.root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(whole)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (s *Store) syncDir() error {
	dir, err := s.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// waited are the faults of a file system that pass when somebody makes room.
var waited = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.EINTR, syscall.EAGAIN}

// fault sorts an error of the file system. What is not known to pass halts, without the
// path: the directory is the operator's own, the rest says the errno.
func fault(op string, err error) error {
	if err == nil {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return invalid("an error of type %T", err)
	}
	for _, one := range waited {
		if errno == one {
			return &checkpoint.UnavailableError{Op: op, Reason: errno.Error()}
		}
	}
	return invalid("the directory or a file in it cannot be used: %s", errno)
}
