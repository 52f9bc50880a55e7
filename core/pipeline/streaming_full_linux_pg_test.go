package pipeline_test

import (
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// X08, the disk for spilling full: it halts with its own reason, leaves nothing, and goes
// on once there is room. Where nothing may be mounted, a limit on the size of this
// process' files stands in for the small disk.
func TestX08FullDisk(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	tables(t, db)
	dir := t.TempDir()
	enlarge := smallDisk(t, dir)
	sink := sinktest.NewMemory()
	o := streamed(options(db, slot(db), sink), dir, "")
	first := start(t, o)
	first.streaming(t)
	db.Exec(t, "insert into t values (1, 'before')")
	require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 1 }))
	db.Exec(t, "insert into u select i, repeat('"+secret+"', 100) from generate_series(1, 1000) i")
	require.Error(t, first.wait(t))
	halts(t, o, core.HaltSpillFailed)
	noFiles(t, dir)
	require.Len(t, sink.Transactions(), 1)
	enlarge()
	r := start(t, o)
	require.True(t, sink.WaitFor(patience, func(l []sinktest.Transaction) bool { return len(l) == 2 && len(l[1].Changes) == 1000 }))
	r.Drain()
	require.NoError(t, r.wait(t))
}

// smallDisk leaves room for 300 KiB in dir until enlarge is called.
func smallDisk(t *testing.T, dir string) (enlarge func()) {
	const room = 300 << 10
	var once sync.Once
	undo := func() { require.NoError(t, syscall.Unmount(dir, 0), "a file is still open") }
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=300k"); err != nil {
		t.Logf("no file system of fixed size (%v): with a limit on the size of files", err)
		signal.Ignore(syscall.SIGXFSZ)
		var old syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: old.Max}))
		undo = func() {
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
			signal.Reset(syscall.SIGXFSZ)
		}
	}
	enlarge = func() { once.Do(undo) }
	t.Cleanup(enlarge)
	return enlarge
}
