package pgembed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// link is one entry of native/pg-symlinks.json: Target is the link and Source
// what it points to, both relative to the package directory and below native.
type link struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// ensureLinks makes the symbolic links that npm cannot pack. The package lists
// them in a file beside its bin directory and makes them in an install script,
// which we never run. Without them the server does not find its libraries. A
// bin directory without such a list needs nothing. Safe when several processes
// do it at the same time: a link is either missing or complete.
func ensureLinks(bin string) error {
	native := filepath.Dir(bin)
	text, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var links []link
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("%s/pg-symlinks.json: %w", native, err)
	}
	for _, l := range links {
		source, err1 := below(native, l.Source)
		target, err2 := below(native, l.Target)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("%s/pg-symlinks.json: %w", native, err)
		}
		if err := ensureLink(source, target); err != nil {
			return err
		}
	}
	return nil
}

// below places a path of the list in the directory that stands for native; a
// copied tree has another name.
func below(native, path string) (string, error) {
	rel, err := filepath.Rel("native", path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%q is not below native", path)
	}
	return filepath.Join(native, rel), nil
}

func ensureLink(source, target string) error {
	dest, err := filepath.Rel(filepath.Dir(target), source)
	if err != nil {
		return err
	}
	if have, err := os.Readlink(target); err == nil && have == dest {
		return nil
	}
	// A file that npm (or a copy that follows links) did put there is as good.
	if st, err := os.Lstat(target); err == nil && st.Mode().IsRegular() {
		return nil
	}
	tmp := fmt.Sprintf("%s.%d.tmp", target, os.Getpid())
	if err := os.Symlink(dest, tmp); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("link missing and cannot be made (run `npm ci` where the tree is writable): %w", err)
	}
	if err := os.Rename(tmp, target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
