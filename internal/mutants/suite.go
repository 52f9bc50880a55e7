package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// testTimeout bounds one run of the named tests. A mutant that makes a test hang has not
// been noticed by it.
const testTimeout = 90 * time.Second

// verdict is what a run of tests said.
type verdict int

const (
	passed verdict = iota
	failed
	unclear // no test, a skipped one, a hang, a crash without the name of a test
)

// runner builds and runs suites in a tree.
type runner struct {
	tree     *tree
	binaries string // folder for test binaries
}

// build compiles the tests of a Go package into a binary. -trimpath makes the build
// cache good for any place of the tree.
func (r *runner) build(ctx context.Context, dir string) (binary string, err error) {
	binary = filepath.Join(r.binaries, strings.Trim(strings.ReplaceAll(dir, "/", "_"), "._")+".test")
	_, err = output(ctx, r.tree.dir, "go", "test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", "-o", binary, dir)
	return binary, err
}

// compiles looks at Python files; Go is compiled by build.
func (r *runner) compiles(ctx context.Context, m *mutant) error {
	for _, path := range m.paths {
		if !strings.HasSuffix(path, ".py") {
			continue
		}
		const parse = "import ast, sys; ast.parse(open(sys.argv[1]).read())"
		if _, err := output(ctx, r.tree.dir, r.python(), "-c", parse, path); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) python() string {
	return filepath.Join(r.tree.dir, "examples/python-sink/.venv/bin/python")
}

// run runs the tests of a suite; binary is that of a Go package.
func (r *runner) run(ctx context.Context, s suite, binary string, env []string) (verdict, string) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	var cmd *exec.Cmd
	judge := judgeGo
	if s.python() {
		cmd = exec.CommandContext(ctx, r.python(), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", s.dir, "-k", s.run)
		cmd.Dir, judge = r.tree.dir, judgePytest
	} else {
		cmd = exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.run="+anchored(s.run),
			"-test.timeout="+(testTimeout-5*time.Second).String())
		cmd.Dir = filepath.Join(r.tree.dir, s.dir)
	}
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return unclear, "no end within " + testTimeout.String()
	case err != nil && !errors.As(err, &exit):
		return unclear, err.Error()
	}
	return judge(cmd.ProcessState.ExitCode(), out.String())
}

// anchored makes a name mean that test alone, in each part between slashes.
func anchored(run string) string {
	parts := strings.Split(run, "/")
	for i, part := range parts {
		parts[i] = "^(" + part + ")$"
	}
	return strings.Join(parts, "/")
}

var (
	goPassed = regexp.MustCompile(`(?m)^\s*--- PASS: `)
	goFailed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	goSkip   = regexp.MustCompile(`(?m)^\s*--- SKIP: (\S+)`)
)

func judgeGo(exit int, out string) (verdict, string) {
	fail, skip := goFailed.FindStringSubmatch(out), goSkip.FindStringSubmatch(out)
	switch {
	case strings.Contains(out, "panic: test timed out"):
		return unclear, "the test hangs"
	case exit != 0 && fail != nil:
		return failed, out
	case exit != 0:
		return unclear, "it ended without the name of a test that failed:\n" + last(out, 15)
	case skip != nil:
		return unclear, skip[1] + " was skipped"
	case !goPassed.MatchString(out):
		return unclear, "no such test"
	}
	return passed, out
}

// judgePytest knows pytest's exit codes: 1 tests failed, 5 none was found, 2 to 4 it could
// not begin.
func judgePytest(exit int, out string) (verdict, string) {
	switch {
	case exit == 1:
		return failed, out
	case exit == 5:
		return unclear, "no such test"
	case exit != 0:
		return unclear, fmt.Sprintf("pytest ended with %d:\n%s", exit, last(out, 15))
	case strings.Contains(out, " skipped"):
		return unclear, "a test was skipped"
	}
	return passed, out
}

// last is the end of a text.
func last(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}
