package wal_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// BenchmarkDrain reads a backlog to its end, bare: what the socket alone costs, with
// and without the nap. It reports rows a second and CPU of both sides. Run it with
// -benchtime 1x -count 5.
func BenchmarkDrain(b *testing.B) {
	pg := pgtest.Shared(b, pgembed.NewestMajor)
	w := newWorld(b, pg)
	from := w.create(b)
	const transactions, many, rowsEach = 100_000, 300, 1000
	w.db.Exec(b,
		fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP INSERT INTO item VALUES (i, 'some text of a row'); COMMIT; END LOOP; END $$`, transactions))
	middle := marker(b, w)
	w.db.Exec(b,
		fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP INSERT INTO item SELECT i * 1000000 + g, 'some text of a row'
 FROM generate_series(1, %d) g; COMMIT; END LOOP; END $$`, many, rowsEach))
	end := marker(b, w)
	for _, load := range []struct {
		name     string
		from, to core.LSN
		rows     float64
	}{
		{"one-row-transactions", from, middle, transactions},
		{"thousand-row-transactions", middle, end, many * rowsEach},
	} {
		for _, nap := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/nap=%t", load.name, nap), func(b *testing.B) {
				w := w
				w.options.NoNap = !nap
				for b.Loop() {
					drain(b, w, load.from, load.to, load.rows)
				}
			})
		}
	}
}

// marker is a position behind everything so far.
func marker(b *testing.B, w world) core.LSN {
	catalog, err := wal.OpenCatalog(bounded(b), w.options)
	require.NoError(b, err)
	defer catalog.Close()
	at, err := catalog.CurrentLSN(bounded(b))
	require.NoError(b, err)
	return at
}

func drain(b *testing.B, w world, from, to core.LSN, rows float64) {
	c, err := wal.Connect(bounded(b), w.options)
	require.NoError(b, err)
	defer c.Close()
	ctx := bounded(b)
	begun, own, sender := time.Now(), ownCPU(b), processCPU(b, c.PID())
	require.NoError(b, c.Start(ctx, from, from))
	var batch wal.Batch
	reads, frames := 0, 0
	for done := false; !done; reads++ {
		require.NoError(b, c.Read(ctx, &batch))
		frames += len(batch.Frames)
		for i := range batch.Frames {
			f := &batch.Frames[i]
			switch {
			case f.Keepalive:
				done = done || f.WALEnd >= to
			case f.Data[0] == 'C':
				done = done || core.LSN(binary.BigEndian.Uint64(f.Data[10:])) >= to
			}
		}
	}
	b.ReportMetric(rows/time.Since(begun).Seconds(), "rows/s")
	b.ReportMetric((ownCPU(b) - own).Seconds(), "own-cpu-s")
	b.ReportMetric((processCPU(b, c.PID()) - sender).Seconds(), "walsender-cpu-s")
	b.ReportMetric(float64(frames)/float64(reads), "frames/read")
}

func ownCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processCPU is user and system time of another process, in the kernel's ticks of 10 ms.
func processCPU(b *testing.B, pid uint32) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("needs /proc")
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
