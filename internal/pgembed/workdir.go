package pgembed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// dirPrefix starts the name of every directory made here; sweep looks for it.
const dirPrefix = "replicant-pg-"

// maxSocketDir leaves room for "/.s.PGSQL.65535" within the 104 bytes that the
// narrowest system (macOS) has for a socket's path.
const maxSocketDir = 85

// workdir is the directory of one server: data, log, socket.
type workdir struct {
	base      string
	throwAway bool
}

func (w workdir) data() string { return filepath.Join(w.base, "data") }
func (w workdir) log() string  { return filepath.Join(w.base, "postgres.log") }

// tempRoot is the system's temporary directory, or /tmp where that one is too
// deep for a socket or closed to the server's user.
func tempRoot(ctx context.Context, who account) string {
	dir := os.TempDir()
	if len(dir)+len(dirPrefix)+12 > maxSocketDir || !who.canUse(ctx, dir) {
		return "/tmp"
	}
	return dir
}

// makeWorkdir makes or takes the directory of a server. Only its owner can
// enter it, and with it the socket.
func makeWorkdir(ctx context.Context, opts Options, who account) (workdir, error) {
	if opts.Dir == "" {
		base, err := os.MkdirTemp(tempRoot(ctx, who), dirPrefix)
		if err != nil {
			return workdir{}, err
		}
		w := workdir{base: base, throwAway: !opts.KeepData}
		return w, who.own(base)
	}
	base, err := filepath.Abs(opts.Dir)
	if err != nil {
		return workdir{}, err
	}
	if len(base) > maxSocketDir {
		return workdir{}, fmt.Errorf("%s is too long a path for a unix socket (%d bytes, at most %d)", base, len(base), maxSocketDir)
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return workdir{}, err
	}
	if err := os.Chmod(base, 0o700); err != nil {
		return workdir{}, err
	}
	return workdir{base: base}, who.own(base)
}
