package pgembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// place is one kind of location in Find's order.
type place struct {
	name string
	// dirs lists the candidate directories for a major.
	dirs func(ctx context.Context, major int) []string
	// final: a candidate that does not run ends the search.
	final bool
}

var (
	errNothingThere = errors.New("nothing there")
	errDownloadOff  = errors.New("not allowed")
)

// wrongMajorError is a working Postgres of another major.
type wrongMajorError struct{ got, want int }

func (e *wrongMajorError) Error() string {
	return fmt.Sprintf("has major %d, wanted %d", e.got, e.want)
}

// look returns the first candidate of the major that runs.
func (p place) look(ctx context.Context, major int) (Binaries, error) {
	last := errNothingThere
	for _, dir := range p.dirs(ctx, major) {
		if _, err := os.Stat(dir); err != nil && !p.final {
			continue
		}
		b, err := inspect(ctx, dir, p.name)
		switch {
		case err != nil:
			last = err
		case b.Major != major:
			last = &wrongMajorError{got: b.Major, want: major}
		default:
			return b, nil
		}
	}
	return Binaries{}, last
}

// places returns Find's order without the download.
func places(opts FindOptions) []place {
	var out []place
	explicit := func(name, dir string) {
		out = append(out, place{
			name: name + "=" + dir, final: true,
			dirs: func(context.Context, int) []string { return []string{dir} },
		})
	}
	npm := func(name, root string) {
		out = append(out, place{name: name, dirs: func(_ context.Context, major int) []string {
			return []string{npmBin(root, major)}
		}})
	}
	if opts.Bin != "" {
		explicit("explicit directory", opts.Bin)
	} else if dir := os.Getenv(EnvBin); dir != "" {
		explicit(EnvBin, dir)
	}
	if opts.Root != "" {
		npm("npm tree "+opts.Root, opts.Root)
	} else if dir := os.Getenv(EnvRoot); dir != "" {
		npm(EnvRoot+"="+dir, dir)
	}
	if opts.Checkout {
		if root := checkoutRoot(); root != "" {
			npm("this checkout's test/pg (npm ci --ignore-scripts)", filepath.Join(root, "test", "pg", "node_modules"))
		}
	}
	out = append(out, place{name: "system", dirs: systemDirs})
	if dir, err := cacheDir(opts); err == nil {
		out = append(out, place{name: "user cache " + dir, dirs: func(_ context.Context, major int) []string {
			return cachedDirs(dir, major)
		}})
	}
	return out
}

func npmBin(root string, major int) string {
	return filepath.Join(root, fmt.Sprintf("pg%d", major), "native", "bin")
}

// systemDirs are the places where packagers put Postgres.
func systemDirs(ctx context.Context, major int) []string {
	dirs := []string{
		fmt.Sprintf("/usr/lib/postgresql/%d/bin", major),          // Debian, Ubuntu
		fmt.Sprintf("/usr/pgsql-%d/bin", major),                   // RHEL, Fedora (PGDG)
		fmt.Sprintf("/opt/homebrew/opt/postgresql@%d/bin", major), // macOS, arm64
		fmt.Sprintf("/usr/local/opt/postgresql@%d/bin", major),    // macOS, amd64
		fmt.Sprintf("/usr/libexec/postgresql%d", major),           // Alpine
		fmt.Sprintf("/Library/PostgreSQL/%d/bin", major),          // EDB installer
		fmt.Sprintf("/usr/local/pgsql-%d/bin", major),             // built by hand
		"/usr/local/pgsql/bin",
	}
	if path, err := exec.LookPath("pg_config"); err == nil {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if out, err := exec.CommandContext(ctx, path, "--bindir").Output(); err == nil {
			dirs = append([]string{strings.TrimSpace(string(out))}, dirs...)
		}
	}
	return dirs
}

const modulePath = "github.com/replicant-sidecar/replicant-sidecar"

// checkoutRoot walks up from the working directory to this module's go.mod.
func checkoutRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module "+modulePath+"\n")) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
