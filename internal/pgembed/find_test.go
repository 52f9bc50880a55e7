package pgembed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeBin writes a "Postgres" that can say its version and nothing else: what
// Find asks for.
func fakeBin(t *testing.T, dir, version string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s (made up)'\n", version)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), []byte(script), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "initdb"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	return dir
}

// noPostgres takes away what this machine has, as far as a test can.
func noPostgres(t *testing.T) FindOptions {
	t.Helper()
	t.Setenv(EnvBin, "")
	t.Setenv(EnvRoot, "")
	t.Setenv("PATH", "/bin:/usr/bin")
	return FindOptions{CacheDir: t.TempDir()}
}

func TestFindTakesTheExplicitDirectoryFirst(t *testing.T) {
	opts := noPostgres(t)
	root := t.TempDir()
	fakeBin(t, npmBin(root, 17), "17.1")
	opts.Root = root
	opts.Bin = fakeBin(t, t.TempDir(), "17.2")
	b, err := Find(t.Context(), 17, opts)
	require.NoError(t, err)
	require.Equal(t, Binaries{Dir: opts.Bin, Major: 17, Version: "17.2", Source: "explicit directory=" + opts.Bin}, b)
}

func TestFindPassesOverAnExplicitDirectoryOfAnotherMajor(t *testing.T) {
	opts := noPostgres(t)
	root := t.TempDir()
	fakeBin(t, npmBin(root, 17), "17.1")
	t.Setenv(EnvRoot, root)
	t.Setenv(EnvBin, fakeBin(t, t.TempDir(), "16.3"))
	b, err := Find(t.Context(), 17, opts)
	require.NoError(t, err)
	require.Equal(t, "17.1", b.Version)

	b, err = Find(t.Context(), 0, opts)
	require.NoError(t, err)
	require.Equal(t, "16.3", b.Version, "any major: the explicit one")
}

// A directory that was named and does not work must not be replaced by
// something else in silence.
func TestFindStopsAtABrokenExplicitDirectory(t *testing.T) {
	opts := noPostgres(t)
	root := t.TempDir()
	fakeBin(t, npmBin(root, 17), "17.1")
	opts.Root = root
	opts.Bin = filepath.Join(t.TempDir(), "empty")
	_, err := Find(t.Context(), 17, opts)
	require.ErrorContains(t, err, "no postgres in "+opts.Bin)

	opts.Bin = fakeBin(t, t.TempDir(), "17.1")
	require.NoError(t, os.WriteFile(filepath.Join(opts.Bin, "postgres"), []byte("#!/bin/sh\necho broken >&2; exit 3\n"), 0o755))
	_, err = Find(t.Context(), 17, opts)
	require.ErrorContains(t, err, "broken")
}

func TestFindUsesTheCache(t *testing.T) {
	opts := noPostgres(t)
	fakeBin(t, filepath.Join(opts.CacheDir, "99.4-"+platform(), "bin"), "99.4")
	b, err := Find(t.Context(), 99, opts)
	require.NoError(t, err)
	require.Equal(t, "99.4", b.Version)
}

func TestFindUsesTheCheckoutOnlyWhenAsked(t *testing.T) {
	opts := noPostgres(t)
	checkout := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(checkout, "go.mod"), []byte("module "+modulePath+"\n"), 0o644))
	fakeBin(t, npmBin(filepath.Join(checkout, "test", "pg", "node_modules"), 99), "99.1")
	below := filepath.Join(checkout, "a", "b")
	require.NoError(t, os.MkdirAll(below, 0o755))
	t.Chdir(below)
	_, err := Find(t.Context(), 99, opts)
	require.Error(t, err)
	opts.Checkout = true
	b, err := Find(t.Context(), 99, opts)
	require.NoError(t, err)
	require.Equal(t, "99.1", b.Version)
}

func TestNotFoundSaysWhatWasTriedAndWhatHelps(t *testing.T) {
	opts := noPostgres(t)
	opts.Root = t.TempDir()
	_, err := Find(t.Context(), 99, opts)
	var missing *NotFoundError
	require.True(t, errors.As(err, &missing))
	require.Equal(t, 99, missing.Major)
	for _, want := range []string{
		"Postgres 99 was not found", "npm tree " + opts.Root, "system:", "user cache " + opts.CacheDir, "download: not allowed",
		EnvBin, EnvRoot, "apt install postgresql", "docker run", "npm ci",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"17.10": "17.10", "15.18 (Debian 15.18-0+deb12u1)": "15.18", "19devel": "19", "18beta1": "18", "18.4": "18.4",
	} {
		b, err := inspect(t.Context(), fakeBin(t, t.TempDir(), text), "x")
		require.NoError(t, err, text)
		require.Equal(t, want, b.Version, text)
	}
	_, err := inspect(t.Context(), fakeBin(t, t.TempDir(), "x"), "x")
	require.Error(t, err)
}
