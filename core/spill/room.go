package spill

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// MaxDefault bounds a room where nothing else is set.
const MaxDefault = 1 << 30

// suffix marks our files; a sweep removes no others.
const suffix = ".spill"

// Options says where a room is and how large it may become.
type Options struct {
	// Dir is the folder of all rooms. It is made when it is not there.
	Dir string
	// Name is the room's own folder in it: the slot's name, since a slot has one reader.
	Name string
	// Max bounds the files of the room together, in bytes; 0 means MaxDefault.
	Max int64
}

// Room is a folder for files. One goroutine creates and uses files; Used may be asked by
// any.
type Room struct {
	folder string
	max    int64
	used   atomic.Int64
}

// Open makes the folder, if it is not there, and removes files that a crash left in it.
func Open(o Options) (*Room, error) {
	if o.Name == "" || o.Name != filepath.Base(o.Name) || o.Name == "." || o.Name == ".." {
		return nil, core.NewHalt(core.HaltInvariant, "spill", "a room without a name of its own")
	}
	if o.Max <= 0 {
		o.Max = MaxDefault
	}
	r := &Room{folder: filepath.Join(o.Dir, o.Name), max: o.Max}
	const private = 0o700
	if err := os.MkdirAll(r.folder, private); err != nil {
		return nil, failed("the folder cannot be made", err)
	}
	info, err := os.Lstat(r.folder)
	if err != nil {
		return nil, failed("the folder cannot be read", err)
	}
	const othersWrite = 0o022
	if !info.IsDir() || info.Mode().Perm()&othersWrite != 0 {
		return nil, core.NewHalt(core.HaltSpillFailed, "spill", "%s is no folder that only its owner can write to", r.folder)
	}
	return r, r.sweep()
}

func (r *Room) sweep() error {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return failed("the folder cannot be read", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		if err := os.Remove(filepath.Join(r.folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed("an old file cannot be removed", err)
		}
	}
	return nil
}

// Used is how many bytes the room's files hold.
func (r *Room) Used() int64 { return r.used.Load() }

// Create opens an empty file that has no name any more.
func (r *Room) Create() (*File, error) {
	f, err := os.CreateTemp(r.folder, "*"+suffix) // mode 0600
	if err != nil {
		return nil, failed("a file cannot be made", err)
	}
	_ = failpoint.Hit(failpoint.SpillNamed)
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = f.Close()
		return nil, failed("a file cannot be unlinked", err)
	}
	return &File{room: r, file: f}, nil
}

// failed says what the system said, without the name of a file.
func failed(what string, err error) *core.Halt {
	reason := err
	var path *fs.PathError
	if errors.As(err, &path) {
		reason = path.Err
	}
	h := core.NewHalt(core.HaltSpillFailed, "spill", "%s: %s", what, reason)
	h.Err = err
	return h
}
