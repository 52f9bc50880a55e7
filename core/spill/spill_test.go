package spill

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func room(t testing.TB, max int64) (*Room, string) {
	dir := t.TempDir()
	r, err := Open(Options{Dir: dir, Name: "s", Max: max})
	require.NoError(t, err)
	return r, filepath.Join(dir, "s")
}

func create(t testing.TB, r *Room) *File {
	f, err := r.Create()
	require.NoError(t, err)
	return f
}

func requireHalt(t testing.TB, code core.HaltCode, err error) *core.Halt {
	t.Helper()
	halt, ok := core.AsHalt(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, halt.Code, "%v", err)
	return halt
}

func TestBlocksComeBackAsTheyWere(t *testing.T) {
	r, _ := room(t, 1<<30)
	rapid.Check(t, func(t *rapid.T) {
		files := []*File{}
		want := [][][]byte{}
		for range rapid.IntRange(1, 3).Draw(t, "files") {
			f, err := r.Create()
			require.NoError(t, err)
			files, want = append(files, f), append(want, nil)
		}
		for range rapid.IntRange(0, 20).Draw(t, "blocks") {
			i := rapid.IntRange(0, len(files)-1).Draw(t, "file")
			block := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "bytes"), rapid.SampledFrom([]int{0, 1, 1000, 100_000}).Draw(t, "times"))
			require.NoError(t, files[i].Append(block))
			want[i] = append(want[i], block)
		}
		for i, f := range files {
			for _, block := range want[i] {
				got, err := f.Next()
				require.NoError(t, err)
				require.True(t, bytes.Equal(block, got))
			}
			for range 2 {
				_, err := f.Next()
				require.Equal(t, io.EOF, err)
			}
			f.Close()
			f.Close()
		}
		require.Zero(t, r.Used())
	})
}

// A file has no name while it is used, and nobody else may read it.
func TestFilesHaveNoName(t *testing.T) {
	r, folder := room(t, 1000)
	f := create(t, r)
	require.NoError(t, f.Append([]byte("block")))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
	info, err := f.file.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Zero(t, info.Sys().(*syscall.Stat_t).Nlink)
	folderInfo, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), folderInfo.Mode().Perm())
	f.Close()
}

func TestTheLimitIsForAllFilesTogether(t *testing.T) {
	r, _ := room(t, 100)
	a, b := create(t, r), create(t, r)
	require.NoError(t, a.Append(make([]byte, 50-headerSize)))
	require.NoError(t, b.Append(make([]byte, 49-headerSize)))
	require.EqualValues(t, 99, r.Used())
	halt := requireHalt(t, core.HaltSpillExhausted, a.Append(nil))
	require.Contains(t, halt.Detail, "the limit is 100")
	require.EqualValues(t, 99, r.Used())
	b.Close()
	require.EqualValues(t, 50, r.Used())
	require.NoError(t, a.Append(make([]byte, 50-headerSize)))
	a.Close()
	require.Zero(t, r.Used())
}

// Whatever happens to the bytes on disk, no wrong block comes back and no end is told.
func TestBrokenFilesAreFound(t *testing.T) {
	const blocks = 3
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 10) }
	const size = headerSize + 10
	for name, spoil := range map[string]func(f *os.File) error{
		"a byte of a block":          func(f *os.File) error { return flip(f, 2*size-1) },
		"a byte of a length":         func(f *os.File) error { return flip(f, size+3) },
		"the top byte of a length":   func(f *os.File) error { return flip(f, size) },
		"a byte of a checksum":       func(f *os.File) error { return flip(f, size+5) },
		"cut between blocks":         func(f *os.File) error { return f.Truncate(2 * size) },
		"cut in a block":             func(f *os.File) error { return f.Truncate(3*size - 1) },
		"cut in a header":            func(f *os.File) error { return f.Truncate(2*size + 3) },
		"a block in another's place": func(f *os.File) error { return swap(f, 0, size, size) },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := room(t, 1000)
			f := create(t, r)
			defer f.Close()
			for i := range blocks {
				require.NoError(t, f.Append(content(i)))
			}
			require.NoError(t, spoil(f.file))
			var err error
			for i := 0; err == nil; i++ {
				var block []byte
				if block, err = f.Next(); err == nil {
					require.Equal(t, content(i), block)
				}
			}
			requireHalt(t, core.HaltSpillFailed, err)
			require.Less(t, cap(f.buf), 100, "memory was taken by an announced length")
		})
	}
}

func flip(f *os.File, at int64) error {
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		return err
	}
	b[0] ^= 0x40
	_, err := f.WriteAt(b[:], at)
	return err
}

func swap(f *os.File, a, b int64, size int) error {
	x, y := make([]byte, size), make([]byte, size)
	_, err1 := f.ReadAt(x, a)
	_, err2 := f.ReadAt(y, b)
	_, err3 := f.WriteAt(x, b)
	_, err4 := f.WriteAt(y, a)
	return errors.Join(err1, err2, err3, err4)
}

// A sweep removes what a crash left of this room, and nothing else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) string {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		return path
	}
	old, other, neighbour := write("s/1.spill"), write("s/notes.txt"), write("t/2.spill")
	_, err := Open(Options{Dir: dir, Name: "s"})
	require.NoError(t, err)
	require.NoFileExists(t, old)
	require.FileExists(t, other)
	require.FileExists(t, neighbour)
}

func TestFoldersThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "open"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "open"), 0o777))
	for _, name := range []string{"link", "file", "open"} {
		_, err := Open(Options{Dir: dir, Name: name})
		requireHalt(t, core.HaltSpillFailed, err)
	}
	_, err := Open(Options{Dir: filepath.Join(dir, "file"), Name: "s"})
	requireHalt(t, core.HaltSpillFailed, err)
	for _, name := range []string{"", ".", "..", "a/b", "../s"} {
		_, err := Open(Options{Dir: dir, Name: name})
		requireHalt(t, core.HaltInvariant, err)
	}
}

func TestFaultsOfTheSystemHalt(t *testing.T) {
	r, folder := room(t, 1000)
	f := create(t, r)
	require.NoError(t, f.Append([]byte("block")))
	require.NoError(t, f.file.Close())
	requireHalt(t, core.HaltSpillFailed, f.Append([]byte("block")))
	_, err := f.Next()
	requireHalt(t, core.HaltSpillFailed, err)
	f.Close()
	require.Zero(t, r.Used())
	require.NoError(t, os.Remove(folder))
	_, err = r.Create()
	halt := requireHalt(t, core.HaltSpillFailed, err)
	require.NotContains(t, halt.Error(), folder)
}
