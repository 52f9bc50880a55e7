package assembler

import (
	"encoding/binary"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Spill is room outside of memory for transactions in progress. Its errors are
// *core.Halt: spill_exhausted or spill_failed.
type Spill interface {
	// Create makes an empty file.
	Create() (SpillFile, error)
}

// SpillFile keeps blocks of bytes and gives them back once, in the order they came.
type SpillFile interface {
	Append(block []byte) error
	// Next is the next block, valid until the following call. io.EOF after the last one is
	// told only if all came back as they were.
	Next() ([]byte, error)
	// Close gives the room back. It may be called more than once.
	Close()
}

// holdings is the memory of all that is held.
type holdings struct {
	most, resident int // bytes
	spill          Spill
	spare          []byte // memory of a tail that was spilled
}

// holding is messages of one transaction in the order they came: first those in the file,
// then the tail. A message is a frame: subtransaction and length, 4 bytes each, then its
// tag and body as protocol 1 has them.
type holding struct {
	file SpillFile // nil while nothing was spilled
	tail []byte
	runs []stretch // of the tail
	// frames counts what is held and not cut off again.
	frames uint64
	// spilled is the highest subtransaction of which frames are in the file; 0 is none.
	spilled uint32
}

// stretch is consecutive frames of one subtransaction at the end of a tail.
type stretch struct {
	sub     uint32
	highest uint32 // subtransaction of this holding up to and with these frames
	start   int    // in the tail
	frames  uint64
}

const (
	frameHeader = 4 + 4
	// blockBytes is the least size of a spilled block that is not the last of a tail.
	blockBytes = 256 << 10
	// kindArrival precedes a description: the place at which it came, 8 bytes.
	kindArrival = 0
)

// add appends a frame.
func (h *holding) add(all *holdings, sub uint32, kind byte, body []byte) {
	if need := len(h.tail) + frameHeader + 1 + len(body); need > cap(h.tail) {
		all.grow(h, need)
	}
	last := len(h.runs) - 1
	if last < 0 || h.runs[last].sub != sub {
		highest := sub
		if before := h.highest(); before > sub {
			highest = before
		}
		h.runs = append(h.runs, stretch{sub: sub, highest: highest, start: len(h.tail)})
		last++
	}
	before := len(h.tail)
	h.tail = binary.BigEndian.AppendUint32(h.tail, sub)
	h.tail = binary.BigEndian.AppendUint32(h.tail, uint32(1+len(body)))
	h.tail = append(h.tail, kind)
	h.tail = append(h.tail, body...)
	h.runs[last].frames++
	h.frames++
	all.resident += len(h.tail) - before
}

// grow gives a tail room for that many bytes in all. It moves it to the spare memory where
// it fills a good part of that, so that many small tails cannot each sit on a large piece.
func (all *holdings) grow(h *holding, need int) {
	if room := cap(all.spare); need <= room && need > room/2 {
		h.tail, all.spare = append(all.spare[:0], h.tail...), nil
		return
	}
	const least = 4 << 10
	// A tail above the bound is spilled, so no more room than that is of use.
	room := max(need, min(max(2*cap(h.tail), least), all.most+all.most/8))
	h.tail = append(make([]byte, 0, room), h.tail...)
}

func (h *holding) addArrival(all *holdings, sub uint32, arrival uint64) {
	var body [8]byte
	binary.BigEndian.PutUint64(body[:], arrival)
	h.add(all, sub, kindArrival, body[:])
}

// highest is the highest subtransaction of which something is held; 0 is none.
func (h *holding) highest() uint32 {
	if last := len(h.runs) - 1; last >= 0 {
		return h.runs[last].highest
	}
	return h.spilled
}

// last is the subtransaction of the last frames of the tail; 0 is none.
func (h *holding) last() uint32 {
	if last := len(h.runs) - 1; last >= 0 {
		return h.runs[last].sub
	}
	return 0
}

// cutOff takes the last stretch off the tail.
func (h *holding) cutOff(all *holdings) {
	last := len(h.runs) - 1
	all.resident -= len(h.tail) - h.runs[last].start
	h.tail = h.tail[:h.runs[last].start]
	h.frames -= h.runs[last].frames
	h.runs = h.runs[:last]
}

// mayHold is false if certainly nothing of a subtransaction is held. Ids rise, until they
// wrap around, so it is false for the newest.
func (h *holding) mayHold(sub uint32) bool { return sub <= h.highest() }

// spillTail moves the tail to the file.
func (all *holdings) spillTail(h *holding) error {
	if all.spill == nil {
		return core.NewHalt(core.HaltSpillExhausted, "spill", "%d bytes in progress, and no room but memory for %d", all.resident, all.most)
	}
	if h.file == nil {
		file, err := all.spill.Create()
		if err != nil {
			return err
		}
		h.file = file
	}
	for rest := h.tail; len(rest) > 0; {
		size := 0
		for size < len(rest) && size < blockBytes {
			size += frameSize(rest[size:])
		}
		if err := h.file.Append(rest[:size]); err != nil {
			return err
		}
		rest = rest[size:]
	}
	h.spilled = h.highest()
	all.resident -= len(h.tail)
	all.keep(h)
	return nil
}

// frameSize is the length of the first frame of b.
func frameSize(b []byte) int {
	return frameHeader + int(binary.BigEndian.Uint32(b[frameHeader-4:]))
}

// keep takes an emptied tail's memory for the next, unless one huge row made it.
func (all *holdings) keep(h *holding) {
	if cap(h.tail) <= 2*all.most {
		all.spare = h.tail[:0]
	}
	h.tail, h.runs = nil, h.runs[:0]
}

// drop forgets all that is held.
func (all *holdings) drop(h *holding) {
	if h.file != nil {
		h.file.Close()
		h.file = nil
	}
	if h.tail != nil {
		all.resident -= len(h.tail)
		all.keep(h)
	}
}
