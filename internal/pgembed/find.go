package pgembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The majors this package looks for when none is named: newest and oldest.
const (
	NewestMajor = 18
	OldestMajor = 14
)

// Environment variables that say where Postgres is.
const (
	// EnvBin names a directory that holds postgres and initdb.
	EnvBin = "REPLICANT_PG_BIN"
	// EnvRoot names a directory with pg<major>/native/bin below it, the layout
	// that `npm ci` in test/pg leaves in node_modules.
	EnvRoot = "REPLICANT_PG_ROOT"
)

// FindOptions says where Find may look. The zero value looks at the
// environment, the system and the user's cache, and downloads nothing.
type FindOptions struct {
	// Bin is a directory with postgres and initdb; it goes before EnvBin.
	Bin string
	// Root is a directory in npm layout; it goes before EnvRoot.
	Root string
	// Checkout lets Find use test/pg/node_modules of the checkout that holds
	// the working directory. Only tests set it: a released binary must not run
	// programs because of the directory it happens to be started in.
	Checkout bool
	// CacheDir replaces the user's cache directory.
	CacheDir string
	// Download fetches a pinned build when nothing else is found; nil means
	// that nothing is fetched.
	Download *DownloadOptions
}

// Binaries is one usable Postgres installation.
type Binaries struct {
	Dir     string // absolute directory with postgres and initdb
	Major   int    // 17
	Version string // "17.10"
	Source  string // where it was found, for people
}

// Path returns the full path of one program. It does not check that the
// program is there: npm and downloaded builds have only postgres, initdb and
// pg_ctl.
func (b Binaries) Path(program string) string { return filepath.Join(b.Dir, program) }

// Has reports whether the installation has the program.
func (b Binaries) Has(program string) bool {
	st, err := os.Stat(b.Path(program))
	return err == nil && st.Mode().IsRegular()
}

// Find returns a Postgres of the major, or of any major from NewestMajor down
// to OldestMajor when major is 0. The order is: explicit directory, npm tree,
// checkout (tests only), system, user cache, download. An explicit directory
// that holds no Postgres is an error at once; one of another major is passed
// over. The error is a *NotFoundError and says what was tried.
func Find(ctx context.Context, major int, opts FindOptions) (Binaries, error) {
	majors := []int{major}
	if major == 0 {
		majors = nil
		for m := NewestMajor; m >= OldestMajor; m-- {
			majors = append(majors, m)
		}
	}
	missing := &NotFoundError{Major: major}
	for _, place := range places(opts) {
		for _, m := range majors {
			b, err := place.look(ctx, m)
			if err == nil {
				return b, nil
			}
			if ctx.Err() != nil {
				return Binaries{}, ctx.Err() // not looked, so not missing
			}
			var wrong *wrongMajorError
			if place.final && !errors.As(err, &wrong) {
				return Binaries{}, fmt.Errorf("%s: %w", place.name, err)
			}
			missing.tried(place.name, err)
		}
	}
	if opts.Download == nil {
		missing.tried("download", errDownloadOff)
		return Binaries{}, missing
	}
	b, err := download(ctx, major, opts)
	if ctx.Err() != nil && err != nil {
		return Binaries{}, ctx.Err()
	}
	if err != nil {
		missing.tried("download", err)
		return Binaries{}, missing
	}
	return b, nil
}

var versionRE = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?\S*`)

// inspect asks the server program in dir for its version.
func inspect(ctx context.Context, dir, source string) (Binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, err
	}
	for _, program := range []string{"postgres", "initdb"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return Binaries{}, fmt.Errorf("no %s in %s", program, dir)
		}
	}
	if err := ensureLinks(dir); err != nil {
		return Binaries{}, err
	}
	out, err := askVersion(ctx, filepath.Join(dir, "postgres"))
	if err != nil {
		return Binaries{}, err
	}
	m := versionRE.FindSubmatch(out)
	if m == nil {
		return Binaries{}, fmt.Errorf("%s/postgres --version says %q", dir, firstLine(out))
	}
	major, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return Binaries{}, fmt.Errorf("%s/postgres --version says %q", dir, firstLine(out))
	}
	version := string(m[1])
	if len(m[2]) > 0 {
		version += "." + string(m[2])
	}
	return Binaries{Dir: dir, Major: major, Version: version, Source: source}, nil
}

// askVersion runs the server program with --version. A program that was
// written a moment ago may still be held open for writing by a child that this
// process forked meanwhile, until that child runs its own program.
func askVersion(ctx context.Context, program string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for attempt := 1; ; attempt++ {
		cmd := exec.CommandContext(ctx, program, "--version")
		cmd.Env = cleanEnv()
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ETXTBSY) && attempt < 20 {
			time.Sleep(time.Duration(attempt) * 5 * time.Millisecond)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s does not run: %w: %s", program, err, firstLine(out))
		}
		return out, nil
	}
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

// cleanEnv is the environment of every Postgres program started here: nothing
// of the caller's PG* variables, and messages in English. LOCPATH, where locales
// are found, is the caller's.
func cleanEnv() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if locales := os.Getenv("LOCPATH"); locales != "" {
		env = append(env, "LOCPATH="+locales)
	}
	return env
}
