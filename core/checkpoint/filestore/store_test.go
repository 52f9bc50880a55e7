package filestore_test

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/filestore"
)

var (
	mine, other = [16]byte{1}, [16]byte{2}
	source      = core.SourceIdentity{SystemIdentifier: "18446744073709551615", Database: "sh\"op\x00", Slot: "s", Timeline: math.MaxUint32}
)

func open(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func claiming(read uint64, sender [16]byte) checkpoint.Claiming {
	return checkpoint.Claiming{StreamID: "orders", Read: read, Sender: sender, Source: source, SinkName: "mirror"}
}

func move(epoch uint64, sender [16]byte, from, to core.LSN) checkpoint.Move {
	return checkpoint.Move{StreamID: "orders", Epoch: epoch, Sender: sender, From: from, To: to}
}

func requireHalt(t *testing.T, err error, code core.HaltCode, text string) {
	t.Helper()
	h, ok := core.AsHalt(err)
	require.True(t, ok, "want halt %s, got %v", code, err)
	require.Equal(t, code, h.Code, "%v", err)
	require.ErrorContains(t, err, text)
}

// file is the only row in a directory.
func file(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.checkpoint"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// TestRow is the life of one row, with numbers that use all 64 bits.
func TestRow(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir)
	_, found, err := s.Read(ctx, "orders")
	require.NoError(t, err)
	require.False(t, found)
	_, err = s.Claim(ctx, claiming(4, mine))
	require.ErrorIs(t, err, checkpoint.ErrOvertaken, "the row is gone, so it is not as it was read")

	r, err := s.Claim(ctx, claiming(0, mine))
	require.NoError(t, err)
	require.NotZero(t, r.Lineage)
	want := checkpoint.Record{Lineage: r.Lineage, Epoch: 1, Sender: mine, Source: source, SinkName: "mirror"}
	require.Equal(t, want, r)
	again, err := s.Claim(ctx, claiming(0, mine))
	require.NoError(t, err, "a claim may be repeated by its sender")
	require.Equal(t, want, again)
	_, err = s.Claim(ctx, claiming(0, other))
	require.ErrorIs(t, err, checkpoint.ErrOvertaken)

	require.NoError(t, s.Advance(ctx, move(1, mine, 0, 7)))
	require.ErrorIs(t, s.Advance(ctx, move(1, mine, 0, 8)), checkpoint.ErrMoved)
	require.ErrorIs(t, s.Advance(ctx, move(1, other, 7, 8)), checkpoint.ErrMoved, "the same epoch of another sender")
	require.ErrorIs(t, s.Advance(ctx, move(2, mine, 7, 8)), checkpoint.ErrMoved)
	requireHalt(t, s.Advance(ctx, move(1, mine, 7, 7)), core.HaltInvariant, "from 0/7 to 0/7")
	m := move(1, mine, 7, math.MaxUint64)
	m.ResumeState = bytes.Repeat([]byte{0, 1, 255}, 1<<20/3)
	require.NoError(t, s.Advance(ctx, m))
	require.NoError(t, s.Close())
	_, _, err = s.Read(ctx, "orders")
	requireHalt(t, err, core.HaltStoreInvalid, "closed")

	s = open(t, dir)
	r, err = s.Claim(ctx, claiming(1, other))
	require.NoError(t, err)
	want.Epoch, want.Sender, want.Position, want.Base, want.ResumeState = 2, other, math.MaxUint64, 7, m.ResumeState
	require.Equal(t, want, r)
	require.ErrorIs(t, s.Advance(ctx, move(1, mine, 0, 9)), checkpoint.ErrMoved, "an overtaken epoch")
	_, err = s.Claim(ctx, claiming(1, mine))
	require.ErrorIs(t, err, checkpoint.ErrOvertaken)
	foreign := claiming(2, mine)
	foreign.Source.Database = "other"
	_, err = s.Claim(ctx, foreign)
	requireHalt(t, err, core.HaltSourceMismatch, "another database")
	_, err = s.Claim(ctx, claiming(math.MaxUint64, mine))
	requireHalt(t, err, core.HaltInvariant, "highest epoch")
	r, found, err = s.Read(ctx, "orders")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want, r)

	info, err := os.Stat(file(t, dir))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestStreamsAreApart: ids that look alike as file names are other files, and an id
// cannot leave the directory.
func TestStreamsAreApart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ids := []string{"a/b", "a-b", "../a", "A", "a", strings.Repeat("x", 200), strings.Repeat("x", 199) + "y", "é", "\x00"}
	for i, id := range ids {
		c := claiming(0, mine)
		c.StreamID = id
		_, err := s.Claim(t.Context(), c)
		require.NoError(t, err)
		require.NoError(t, s.Advance(t.Context(), checkpoint.Move{StreamID: id, Epoch: 1, Sender: mine, To: core.LSN(i + 1)}))
	}
	for i, id := range ids {
		r, found, err := s.Read(t.Context(), id)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, core.LSN(i+1), r.Position)
	}
	names := map[string]bool{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names[strings.ToLower(e.Name())] = true // some file systems ignore case
	}
	require.Len(t, names, 2*len(ids))
}

// TestSpoiltFiles: what is not exactly a row of this stream halts, every single byte and
// every length of it; it is never taken for no row.
func TestSpoiltFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	_, err := s.Claim(t.Context(), claiming(0, mine))
	require.NoError(t, err)
	require.NoError(t, s.Advance(t.Context(), move(1, mine, 0, 9)))
	good, err := os.ReadFile(file(t, dir))
	require.NoError(t, err)
	path := file(t, dir)
	refused := func(content []byte, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, found, err := s.Read(t.Context(), "orders")
		requireHalt(t, err, core.HaltStoreInvalid, text)
		require.False(t, found)
		_, err = s.Claim(t.Context(), claiming(1, other))
		requireHalt(t, err, core.HaltStoreInvalid, text)
		requireHalt(t, s.Advance(t.Context(), move(1, mine, 9, 10)), core.HaltStoreInvalid, text)
	}
	for n := range good {
		refused(good[:n], "")
		spoilt := bytes.Clone(good)
		spoilt[n] ^= 1
		refused(spoilt, "")
	}
	refused(append(bytes.Clone(good), ' '), "checksum")
	refused(bytes.Repeat([]byte{'x'}, 5<<20), "more than")
	for change, text := range map[[2]string]string{
		{`"orders"`, `"others"`}:                   "another stream",
		{`"pos": "0/9"`, `"pos": "0/0"`}:           "never writes",
		{`"pos": "0/9"`, `"pos": "x"`}:             "never writes",
		{`"epoch": "1"`, `"epoch": "0"`}:           "never writes",
		{`"epoch": "1"`, `"epoch": 1`}:             "not as this program writes it",
		{`"sink_name"`, `"unit": 1, "sink_name"`}:  "not as this program writes it",
		{`"lineage": "`, `"lineage": "AAAA`}:       "never writes",
		{"\n}\n", "\n}\n{}"}:                       "not as this program writes it",
		{`"source_slot": "s"`, `"source_slot": 7`}: "not as this program writes it",
	} {
		refused(filestore.Resign(bytes.Replace(good, []byte(change[0]), []byte(change[1]), 1)), text)
	}
	refused(bytes.Replace(good, []byte("checkpoint 1 "), []byte("checkpoint 2 "), 1), "format")
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.NoError(t, s.Advance(t.Context(), move(1, mine, 9, 10)))
}

// TestPlacesThatAreRefused: what is no plain file, or not ours alone.
func TestPlacesThatAreRefused(t *testing.T) {
	made := func(t *testing.T) (string, string) {
		dir := t.TempDir()
		s := open(t, dir)
		_, err := s.Claim(t.Context(), claiming(0, mine))
		require.NoError(t, err)
		path := file(t, dir)
		require.NoError(t, s.Close())
		return dir, path
	}
	for ending, text := range map[string]string{".checkpoint": "no regular file", ".checkpoint.new": "no regular file", ".lock": "no regular file"} {
		for kind, make := range map[string]func(path string) error{
			"symlink":   func(path string) error { return os.Symlink(path+".kept", path) },
			"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		} {
			t.Run(ending+" "+kind, func(t *testing.T) {
				dir, path := made(t)
				path = strings.TrimSuffix(path, ".checkpoint") + ending
				require.NoError(t, os.WriteFile(path+".kept", nil, 0o600))
				_ = os.Rename(path, path+".kept")
				require.NoError(t, make(path))
				_, err := open(t, dir).Claim(t.Context(), claiming(1, other))
				requireHalt(t, err, core.HaltStoreInvalid, text)
			})
		}
	}
	t.Run("in use", func(t *testing.T) {
		dir, _ := made(t)
		first, second := open(t, dir), open(t, dir)
		_, found, err := first.Read(t.Context(), "orders")
		require.NoError(t, err)
		require.True(t, found)
		_, _, err = second.Read(t.Context(), "orders")
		requireHalt(t, err, core.HaltStoreInvalid, "in use")
		c := claiming(0, mine)
		c.StreamID = "another stream"
		_, err = second.Claim(t.Context(), c)
		require.NoError(t, err)
		require.NoError(t, first.Close())
		_, found, err = second.Read(t.Context(), "orders")
		require.NoError(t, err)
		require.True(t, found)
	})
	t.Run("everybody may write", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o777))
		_, err := filestore.Open(dir)
		requireHalt(t, err, core.HaltStoreInvalid, "everybody")
	})
	t.Run("a file", func(t *testing.T) {
		_, path := made(t)
		_, err := filestore.Open(path)
		requireHalt(t, err, core.HaltStoreInvalid, "not a directory")
	})
	t.Run("a directory that was moved away", func(t *testing.T) {
		dir, _ := made(t)
		s := open(t, dir)
		require.NoError(t, os.Rename(dir, dir+".moved"))
		require.NoError(t, os.Mkdir(dir, 0o700))
		_, found, err := s.Read(t.Context(), "orders")
		require.NoError(t, err)
		require.True(t, found, "the directory that was opened counts, not its name")
	})
	t.Run("cancelled", func(t *testing.T) {
		dir, _ := made(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := open(t, dir).Read(ctx, "orders")
		var away *checkpoint.UnavailableError
		require.ErrorAs(t, err, &away)
	})
}
