package wire

import (
	"encoding/binary"
	"math/bits"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Sizes and appends of single fields. All field numbers of the hand-written messages
// are below 16, so that every tag is one byte.

func tagOf(field protowire.Number, kind protowire.Type) byte { return byte(field)<<3 | byte(kind) }

func sizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// sizeBytes is a whole length-delimited field with a body of n bytes.
func sizeBytes(n int) int { return 1 + sizeVarint(uint64(n)) + n }

// sizeBytesSet is sizeBytes, or nothing for an empty body.
func sizeBytesSet(n int) int {
	if n == 0 {
		return 0
	}
	return sizeBytes(n)
}

// sizeNumber is a varint field, or nothing for 0.
func sizeNumber(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + sizeVarint(v)
}

func appendHead(dst []byte, field protowire.Number, size int) []byte {
	dst = append(dst, tagOf(field, protowire.BytesType))
	return binary.AppendUvarint(dst, uint64(size))
}

func appendBytesSet(dst []byte, field protowire.Number, body []byte) []byte {
	if len(body) == 0 {
		return dst
	}
	return append(appendHead(dst, field, len(body)), body...)
}

func appendStringSet(dst []byte, field protowire.Number, body string) []byte {
	if len(body) == 0 {
		return dst
	}
	return append(appendHead(dst, field, len(body)), body...)
}

func appendNumber(dst []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	dst = append(dst, tagOf(field, protowire.VarintType))
	return binary.AppendUvarint(dst, v)
}

func boolNumber(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// A google.protobuf.Timestamp; the zero time is left out.

func sizeTime(t time.Time) int {
	if t.IsZero() {
		return 0
	}
	return sizeBytes(sizeNumber(uint64(t.Unix())) + sizeNumber(uint64(t.Nanosecond())))
}

func appendTime(dst []byte, field protowire.Number, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	seconds, nanos := uint64(t.Unix()), uint64(t.Nanosecond())
	dst = appendHead(dst, field, sizeNumber(seconds)+sizeNumber(nanos))
	return appendNumber(appendNumber(dst, 1, seconds), 2, nanos)
}
