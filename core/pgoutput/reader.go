package pgoutput

import (
	"bytes"
	"encoding/binary"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// reader takes fields off a frame. After the first fault every read gives zero, so
// that a message can be read straight through and the fault asked for once.
type reader struct {
	rest  []byte
	fault *core.Halt
}

// fail notes malformed bytes. The arguments are numbers, never bytes of a value.
func (r *reader) fail(format string, args ...any) {
	if r.fault == nil {
		r.fault = core.NewHalt(core.HaltMalformedStream, "decode", format, args...)
	}
	r.rest = nil
}

// refuse notes lawful bytes that this decoder does not handle.
func (r *reader) refuse(format string, args ...any) {
	if r.fault == nil {
		r.fault = core.NewHalt(core.HaltUnsupportedMessage, "decode", format, args...)
	}
	r.rest = nil
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.fail("%d bytes wanted where %d are left", n, len(r.rest))
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *reader) uint8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) lsn() core.LSN { return core.LSN(r.uint64()) }

// flags reads a byte in which only the bits of known may be set. A new bit would be a
// meaning that is not understood here.
func (r *reader) flags(known byte) byte {
	b := r.uint8()
	if b&^known != 0 {
		r.fail("unknown flag bits 0x%02x", b&^known)
	}
	return b
}

// text reads bytes up to a NUL, which is taken too. The result aliases the frame.
func (r *reader) text() []byte {
	end := bytes.IndexByte(r.rest, 0)
	if end < 0 {
		r.fail("a string without its end")
		return nil
	}
	s := r.rest[:end:end]
	r.rest = r.rest[end+1:]
	return s
}
