package filestore

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// Store is a checkpoint.Store over one directory. Its methods may be called by several
// goroutines; they take turns.
type Store struct {
	mu     sync.Mutex
	root   *os.Root // nil once closed
	locked map[string]*os.File
	// flushed: the row as it can be read is known to be on the disk.
	flushed map[string]bool
}

var _ checkpoint.Store = (*Store)(nil)

// Open opens the directory, or makes it with rights for its owner alone. The error is a
// *core.Halt. What happens to the directory's name afterwards does not matter.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, opened(err)
	}
	if err := syncParent(dir); err != nil {
		return nil, opened(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, opened(err)
	}
	info, err := root.Stat(".")
	switch {
	case err != nil:
		_ = root.Close()
		return nil, opened(err)
	case info.Mode().Perm()&worldWritable != 0:
		_ = root.Close()
		return nil, invalid("everybody may write to the directory, and so replace the position")
	}
	return &Store{root: root, locked: map[string]*os.File{}, flushed: map[string]bool{}}, nil
}

// opened makes a halt of any error: nothing runs yet that could wait.
func opened(err error) error {
	err = fault("open", err)
	if away, ok := err.(*checkpoint.UnavailableError); ok { //nolint:errorlint // fault returns it bare
		return invalid("the directory cannot be opened: %s", away.Reason)
	}
	return err
}

// syncParent makes the directory's own entry durable. A parent that may not be opened is
// not ours to flush.
func syncParent(dir string) error {
	parent, err := os.Open(filepath.Dir(filepath.Clean(dir)))
	if os.IsPermission(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync()
}

// Close gives the locks back.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		return nil
	}
	for _, f := range s.locked {
		_ = f.Close()
	}
	err := s.root.Close()
	s.root = nil
	return err
}

// use runs f alone and with the stream's lock held.
func (s *Store) use(ctx context.Context, op, streamID string, f func() error) error {
	if ctx.Err() != nil {
		return &checkpoint.UnavailableError{Op: op, Reason: "cancelled"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		return invalid("the store was closed by this side")
	}
	if err := s.lock(op, streamID); err != nil {
		return err
	}
	return f()
}

func (s *Store) lock(op, streamID string) error {
	if s.locked[streamID] != nil {
		return nil
	}
	file := name(streamID) + lockEnding
	if _, err := s.plain(op, file); err != nil {
		return err
	}
	f, err := s.root.OpenFile(file, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return fault(op, err)
	}
	held, err := lockFile(f)
	switch {
	case err != nil:
		_ = f.Close()
		return fault(op, err)
	case !held:
		_ = f.Close()
		return invalid("the checkpoint file is in use by another process")
	}
	s.locked[streamID] = f
	return nil
}

// Read returns the row of a stream.
func (s *Store) Read(ctx context.Context, streamID string) (r checkpoint.Record, found bool, err error) {
	err = s.use(ctx, "read", streamID, func() (err error) {
		r, found, err = s.load("read", streamID)
		return err
	})
	return r, found, err
}

// Claim takes the row over, or makes it.
func (s *Store) Claim(ctx context.Context, c checkpoint.Claiming) (r checkpoint.Record, err error) {
	if err := c.Check(); err != nil {
		return r, err
	}
	err = s.use(ctx, "claim", c.StreamID, func() (err error) {
		r, err = s.claim(c)
		return err
	})
	return r, err
}

func (s *Store) claim(c checkpoint.Claiming) (checkpoint.Record, error) {
	r, found, err := s.load("claim", c.StreamID)
	switch {
	case err != nil:
		return r, err
	case !found && c.Read != 0:
		return r, checkpoint.ErrOvertaken
	case !found:
		r = c.Fresh()
		return r, s.store("claim", c.StreamID, r)
	}
	if err := checkpoint.SameSource(r.Source, c.Source); err != nil {
		return r, err
	}
	switch {
	case c.Repeats(r):
		return r, nil
	case r.Epoch != c.Read:
		return r, checkpoint.ErrOvertaken
	}
	r.Epoch, r.Sender, r.Source, r.SinkName = c.Read+1, c.Sender, c.Source, c.SinkName
	return r, s.store("claim", c.StreamID, r)
}

// Advance moves the position by compare-and-set.
func (s *Store) Advance(ctx context.Context, m checkpoint.Move) error {
	if err := m.Check(); err != nil {
		return err
	}
	return s.use(ctx, "advance", m.StreamID, func() error {
		r, found, err := s.load("advance", m.StreamID)
		switch {
		case err != nil:
			return err
		case !found || !m.Moves(r):
			return checkpoint.ErrMoved
		}
		if m.To != m.From {
			r.Base, r.Position = r.Position, m.To
		}
		if m.Progress != nil {
			r.Progress = m.Progress
		}
		if m.ResumeState != nil {
			r.ResumeState = m.ResumeState
		}
		return s.store("advance", m.StreamID, r)
	})
}
