package pgembed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// copyPrefix starts the name of a copied installation in the temporary
// directory, halfPrefix that of one being made.
const (
	copyPrefix = "replicant-pgbin-"
	halfPrefix = "replicant-pgbin.half-"
)

// reachable returns binaries that the account can run: those given, or, when
// they lie below a directory closed to it (a root's home), a copy in the
// temporary directory. The copy is made once and used again.
func reachable(ctx context.Context, b Binaries, who account) (Binaries, error) {
	if who.cred == nil {
		return b, nil
	}
	refused := who.canRun(ctx, b)
	if refused == nil {
		return b, nil
	}
	moved, err := relocate(b, tempRoot(ctx, who))
	if err != nil {
		return Binaries{}, errors.Join(refused, err)
	}
	return moved, who.canRun(ctx, moved)
}

// relocate copies an installation that keeps bin, lib and share together.
func relocate(b Binaries, root string) (Binaries, error) {
	prefix := filepath.Dir(b.Dir)
	for _, part := range []string{"bin/postgres", "lib", "share"} {
		if _, err := os.Stat(filepath.Join(prefix, part)); err != nil {
			return Binaries{}, fmt.Errorf("%s cannot be copied, it has no %s: make it readable for others", prefix, part)
		}
	}
	st, err := os.Stat(b.Path("postgres"))
	if err != nil {
		return Binaries{}, err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %d", prefix, b.Version, st.Size(), st.ModTime().UnixNano()))
	dest := filepath.Join(root, fmt.Sprintf("%s%d-%s-%x", copyPrefix, os.Geteuid(), b.Version, key[:6]))
	if _, err := os.Lstat(dest); errors.Is(err, fs.ErrNotExist) {
		if err := copyTree(prefix, dest, root); err != nil {
			return Binaries{}, err
		}
	}
	if err := trusted(dest); err != nil {
		return Binaries{}, err
	}
	b.Dir = filepath.Join(dest, "bin")
	b.Source += " (copied to " + dest + ")"
	return b, nil
}

// copyTree makes dest appear whole or not at all.
func copyTree(prefix, dest, root string) error {
	removeOld(filepath.Join(root, halfPrefix+"*"), time.Hour)
	half, err := os.MkdirTemp(root, halfPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(half)
	tree := filepath.Join(half, "tree")
	if err := os.CopyFS(tree, os.DirFS(prefix)); err != nil {
		return err
	}
	if err := openToAll(tree); err != nil {
		return err
	}
	err = os.Rename(tree, dest)
	if _, exists := os.Lstat(dest); exists == nil {
		return nil // ours or that of a process that did the same just now
	}
	return err
}

// openToAll lets everybody read the tree and nobody but its owner change it.
func openToAll(tree string) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() || st.Mode()&0o100 != 0 {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

// trusted checks that a directory with a guessable name is the caller's own:
// programs in it are about to be run.
func trusted(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s exists and was not made by this user: remove it", dir)
	}
	return nil
}

// removeOld removes what matches and was not changed for the given time: the
// remains of a copy or download that was killed.
func removeOld(pattern string, age time.Duration) {
	paths, _ := filepath.Glob(pattern)
	for _, path := range paths {
		st, err := os.Lstat(path)
		if err == nil && time.Since(st.ModTime()) > age {
			_ = os.RemoveAll(path) // another user's stays
		}
	}
}
