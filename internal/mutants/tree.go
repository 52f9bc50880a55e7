package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// linked are folders that are fetched or made, not kept in git; tests need them and
// change nothing in them.
var linked = []string{
	"test/pg/node_modules", "tools/node_modules",
	"examples/python-sink/.venv", "examples/python-sink/gen",
}

// tree is the copy of the checkout that is broken and mended.
type tree struct{ dir string }

// copyTree copies what git knows or would add, as it stands, into dir.
func copyTree(ctx context.Context, root, dir string) (*tree, error) {
	list, err := output(ctx, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if slices.Contains(linked, name) {
			continue // a link in the checkout too
		}
		if err := copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	for _, name := range linked {
		from := filepath.Join(root, name)
		if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
			continue // the tests that need it say so
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Symlink(from, to)); err != nil {
			return nil, err
		}
	}
	return &tree{dir}, nil
}

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // deleted and not committed yet
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", from)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

// check reports whether the patch applies.
func (t *tree) check(ctx context.Context, m *mutant) error { return t.git(ctx, m, "--check") }

// apply breaks the tree; mend must follow.
func (t *tree) apply(ctx context.Context, m *mutant) error { return t.git(ctx, m) }

// mend takes the patch back, also when ctx has ended.
func (t *tree) mend(ctx context.Context, m *mutant) error {
	return t.git(context.WithoutCancel(ctx), m, "--reverse")
}

// git applies a patch where one line before and behind each change is still the same.
func (t *tree) git(ctx context.Context, m *mutant, args ...string) error {
	_, err := output(ctx, t.dir, "git", append(append([]string{"apply", "-C1"}, args...), m.file)...)
	return err
}

// output runs a command in a folder. Git takes the folder for what it is, whatever it lies
// in.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", name, args[0], err, strings.TrimSpace(out.String()+problem.String()))
	}
	return out.String(), nil
}
