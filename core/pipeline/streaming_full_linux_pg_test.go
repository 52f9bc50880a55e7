package pipeline_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// X08, the disk for spilling full: it halts with its own reason, leaves nothing, and goes
// on once there is room. Needs the right to mount; core/spill has the same fault without.
func TestX08FullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=300k"); err != nil {
		t.Skipf("NOT RUN: no file system of fixed size may be mounted here: %v", err)
	}
	mounted := true
	unmount := func() {
		if mounted {
			require.NoError(t, syscall.Unmount(dir, 0), "a file is still open")
			mounted = false
		}
	}
	t.Cleanup(unmount)
	db := pgtest.Shared(t, 17).Database(t)
	tables(t, db)
	sink := sinktest.NewMemory()
	o := streamed(options(db, slot(db), sink), dir, "")
	first := start(t, o)
	first.streaming(t)
	db.Exec(t, "insert into t values (1, 'before')")
	require.True(t, sink.WaitFor(20*time.Second, func(l []sinktest.Transaction) bool { return len(l) == 1 }))
	db.Exec(t, "insert into u select i, repeat('"+secret+"', 100) from generate_series(1, 1000) i")
	require.Error(t, first.wait(t))
	halts(t, o, core.HaltSpillFailed)
	noFiles(t, dir)
	require.Len(t, sink.Transactions(), 1)
	unmount()
	r := start(t, o)
	require.True(t, sink.WaitFor(20*time.Second, func(l []sinktest.Transaction) bool { return len(l) == 2 && len(l[1].Changes) == 1000 }))
	r.Drain()
	require.NoError(t, r.wait(t))
}
