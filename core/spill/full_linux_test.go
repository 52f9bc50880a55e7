package spill

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// A disk that is full in earnest: a file system of 256 KiB. Where this process may not
// mount one, the file-size limit of the process stands in: the same write fails, only
// with another word.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err == nil {
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	} else {
		t.Logf("no file system of fixed size (%v): with a limit on the size of files", err)
		limitFileSize(t, 256<<10)
	}
	r, err := Open(Options{Dir: dir, Name: "s"})
	require.NoError(t, err)
	f := create(t, r)
	for err == nil {
		require.Less(t, f.appended, uint64(100), "the disk does not become full")
		err = f.Append(make([]byte, 10_000))
	}
	halt := requireHalt(t, core.HaltSpillFailed, err)
	require.Contains(t, halt.Detail, "cannot be written")
	f.Close()
	require.Zero(t, r.Used())
	entries, err := os.ReadDir(dir + "/s")
	require.NoError(t, err)
	require.Empty(t, entries)
}
