package assembler

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/stretchr/testify/require"
)

// wide is an inserted row of one value of that many bytes, in a subtransaction.
func wide(sub uint32, size int) pgoutput.Message {
	m := insert(tOID, "1")
	m.New.Raw = append(binary.BigEndian.AppendUint32([]byte{'t'}, uint32(size)), bytes.Repeat([]byte{'x'}, size)...)
	return of(sub, m)
}

// A loop of savepoints that roll back holds nothing in the end, not even their ids.
func TestSavepointsRolledBackAtOnceLeaveNothing(t *testing.T) {
	a := New(Options{})
	push(t, a, streamFirst(7), of(7, one()), of(7, insert(tOID, "1")), streamStop())
	_, before := a.InProgress()
	tx := a.streams.byXID[7]
	for sub := uint32(100); sub < 10_100; sub += 2 {
		push(t, a, streamStart(7), of(sub, one()), of(sub, insert(tOID, "2")), of(sub+1, insert(tOID, "3")), of(sub, insert(tOID, "4")), streamStop(),
			streamAbort(7, sub+1))
		require.Equal(t, map[uint32]struct{}{sub + 1: {}}, tx.aborted, "a row of the parent stands behind it")
		push(t, a, streamAbort(7, sub))
	}
	_, after := a.InProgress()
	require.Equal(t, before, after)
	require.Empty(t, tx.aborted)
	require.EqualValues(t, 3, tx.frames)
	// What was spilled cannot be cut off.
	spill := &memorySpill{}
	a = New(Options{Resident: 1, Spill: spill})
	push(t, a, streamFirst(7), of(8, one()), of(8, insert(tOID, "1")), streamStop(), streamAbort(7, 8), streamAbort(7, 9))
	require.Equal(t, map[uint32]struct{}{8: {}}, a.streams.byXID[7].aborted)
	a.Close()
}

// The largest transaction goes first, one row of any size too, and each keeps its order.
func TestTheLargestIsSpilled(t *testing.T) {
	spill := &memorySpill{}
	a := New(Options{Resident: 10_000, Spill: spill})
	push(t, a, streamFirst(7), of(7, one()), wide(7, 3000), streamStop(), streamFirst(8), of(8, one()), wide(8, 5000), streamStop())
	require.Zero(t, spill.open)
	push(t, a, streamStart(7), wide(7, 1500), streamStop(), streamStart(8), wide(8, 1000), streamStop())
	require.Equal(t, 1, spill.open)
	require.Nil(t, a.streams.byXID[7].file)
	require.NotNil(t, a.streams.byXID[8].file)
	push(t, a, streamFirst(9), of(9, one()), wide(9, 1_000_000), streamStop())
	require.Equal(t, 2, spill.open)
	_, resident := a.InProgress()
	require.Less(t, resident, 10_000)
	push(t, a, streamAbort(9, 9))
	require.Equal(t, 1, spill.open)
}

// Blocks are of a good size, and a row is in one block alone.
func TestSpilledBlocks(t *testing.T) {
	spill := &memorySpill{}
	a := New(Options{Resident: 3 << 20, Spill: spill})
	push(t, a, streamFirst(7), of(7, one()))
	for spill.open == 0 {
		push(t, a, wide(7, 1000))
	}
	blocks := a.streams.byXID[7].file.(*memoryFile).blocks
	require.InDelta(t, 12, len(blocks), 1)
	for i, b := range blocks {
		if i < len(blocks)-1 {
			require.InDelta(t, blockBytes, len(b), 2000)
		}
		for len(b) > 0 {
			require.GreaterOrEqual(t, len(b), frameSize(b))
			b = b[frameSize(b):]
		}
	}
	a.Close()
}

// Memory that is kept for the next tail is not held by a small one, and a huge row's is
// not kept.
func TestSpareMemory(t *testing.T) {
	all := holdings{most: 100_000, spill: &memorySpill{}}
	var large, small, huge holding
	large.add(&all, 1, 'I', make([]byte, 150_000))
	require.NoError(t, all.spillTail(&large))
	require.GreaterOrEqual(t, cap(all.spare), 150_000)
	small.add(&all, 2, 'I', make([]byte, 10))
	require.LessOrEqual(t, cap(small.tail), 4<<10)
	require.NotNil(t, all.spare)
	small.add(&all, 2, 'I', make([]byte, 80_000))
	require.Nil(t, all.spare)
	require.Equal(t, 2, int(small.frames))
	require.Equal(t, frameHeader+1+10, frameSize(small.tail))
	huge.add(&all, 3, 'I', make([]byte, 500_000))
	require.NoError(t, all.spillTail(&huge))
	require.Nil(t, all.spare)
	all.drop(&small)
	all.drop(&huge)
	all.drop(&large)
	require.Zero(t, all.resident)
	require.Zero(t, all.spill.(*memorySpill).open)
}

// A guard: holding a row costs no allocation of its own.
func TestHeldRowsAllocateNothing(t *testing.T) {
	a := New(Options{Resident: 1 << 20, Spill: discard{}})
	row := wide(7, 100)
	push(t, a, streamFirst(7), of(7, one()))
	for range 50_000 {
		push(t, a, row)
	}
	per := testing.AllocsPerRun(20_000, func() {
		if _, err := a.Push(&row); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, per)
	require.Equal(t, core.LSN(0), a.last)
}

// discard is a Spill that keeps nothing.
type discard struct{}

func (discard) Create() (SpillFile, error) { return discard{}, nil }
func (discard) Append([]byte) error        { return nil }
func (discard) Next() ([]byte, error)      { return nil, errBroken }
func (discard) Close()                     {}

// A tail never has much more room than the bound, after which it is spilled.
func TestTailsGrowToTheBoundAndNoFurther(t *testing.T) {
	all := holdings{most: 100_000, spill: &memorySpill{}}
	var h holding
	moved, room := 0, 0
	for len(h.tail) < all.most {
		h.add(&all, 1, 'I', make([]byte, 100))
		if cap(h.tail) != room {
			moved, room = moved+1, cap(h.tail)
		}
	}
	require.LessOrEqual(t, room, 100_000+100_000/8)
	require.Less(t, moved, 8)
	h.add(&all, 1, 'I', make([]byte, 1_000_000))
	require.Less(t, cap(h.tail), 1_200_000)
}
