package spill

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// A block on disk: length and checksum, 4 bytes each, then the bytes. The checksum is
// over the block's number and its bytes, so a block in another's place is found too.
const headerSize = 4 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// File is blocks, written once and then read once.
type File struct {
	room *Room
	file *os.File // nil when closed

	written       int64
	appended, got uint64 // blocks
	at            int64
	buf           []byte
}

// Append writes a block behind the others. After an error the file is of no use.
func (f *File) Append(block []byte) error {
	if uint64(len(block)) > math.MaxUint32 {
		return core.NewHalt(core.HaltSpillFailed, "spill", "a block of %d bytes", len(block))
	}
	size := int64(headerSize + len(block))
	if used := f.room.used.Load(); used+size > f.room.max {
		return core.NewHalt(core.HaltSpillExhausted, "spill", "%d bytes are spilled and %d more are needed, the limit is %d",
			used, size, f.room.max)
	}
	f.room.used.Add(size)
	f.written += size
	var header [headerSize]byte
	binary.BigEndian.PutUint32(header[:], uint32(len(block)))
	binary.BigEndian.PutUint32(header[4:], checksum(f.appended, block))
	f.appended++
	if _, err := f.file.Write(header[:]); err != nil {
		return failed("a block cannot be written", err)
	}
	_ = failpoint.Hit(failpoint.SpillHalf)
	if _, err := f.file.Write(block); err != nil {
		return failed("a block cannot be written", err)
	}
	return nil
}

// Next is the next block, in memory that is valid until the following call. io.EOF is
// told only when every block came back.
func (f *File) Next() ([]byte, error) {
	if f.got == f.appended {
		return nil, io.EOF
	}
	var header [headerSize]byte
	if _, err := f.file.ReadAt(header[:], f.at); err != nil {
		return nil, failed("a block cannot be read", err)
	}
	size := int64(binary.BigEndian.Uint32(header[:]))
	if size > f.written-f.at-headerSize {
		return nil, f.broken("is longer than the file")
	}
	if int64(cap(f.buf)) < size {
		f.buf = make([]byte, size)
	}
	f.buf = f.buf[:size]
	if _, err := f.file.ReadAt(f.buf, f.at+headerSize); err != nil {
		return nil, failed("a block cannot be read", err)
	}
	if checksum(f.got, f.buf) != binary.BigEndian.Uint32(header[4:]) {
		return nil, f.broken("does not match its checksum")
	}
	f.got++
	f.at += headerSize + size
	return f.buf, nil
}

// Close gives the room back. A second call does nothing.
func (f *File) Close() {
	if f.file == nil {
		return
	}
	_ = f.file.Close() // it has no name: whatever this says, the space is free
	f.file, f.buf = nil, nil
	f.room.used.Add(-f.written)
}

func (f *File) broken(how string) *core.Halt {
	return core.NewHalt(core.HaltSpillFailed, "spill", "block %d of %d %s", f.got+1, f.appended, how)
}

func checksum(number uint64, block []byte) uint32 {
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], number)
	return crc32.Update(crc32.Checksum(text[:], castagnoli), castagnoli, block)
}
