package testsink

import "encoding/binary"

// Type OIDs of the parameters, from pg_type.dat.
const (
	oidBytea     = 17
	oidInt8      = 20
	oidText      = 25
	oidTextArray = 1009
	oidInt8Array = 1016
	oidLSN       = 3220
)

// arrayHeader is dimensions, has-nulls, element type, length and lower bound, 4 bytes
// each: the binary form of a one-dimensional array (array_recv in arrayfuncs.c).
const arrayHeader = 20

// array grows into a one-dimensional array parameter in binary form. It is used again
// after start.
type array struct {
	buf     []byte
	element uint32
	length  uint32
	nulls   uint32
}

func (a *array) start(element uint32) {
	var header [arrayHeader]byte
	a.buf = append(a.buf[:0], header[:]...)
	a.element, a.length, a.nulls = element, 0, 0
}

func (a *array) text(value []byte) {
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(len(value)))
	a.buf = append(a.buf, value...)
	a.length++
}

func (a *array) string(value string) {
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(len(value)))
	a.buf = append(a.buf, value...)
	a.length++
}

func (a *array) null() {
	a.buf = binary.BigEndian.AppendUint32(a.buf, 0xffffffff)
	a.nulls = 1
	a.length++
}

func (a *array) int8(value int64) {
	a.buf = binary.BigEndian.AppendUint32(a.buf, 8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(value))
	a.length++
}

// bytes is the whole parameter, valid until start.
func (a *array) bytes() []byte {
	for i, word := range []uint32{1, a.nulls, a.element, a.length, 1} {
		binary.BigEndian.PutUint32(a.buf[4*i:], word)
	}
	return a.buf
}
