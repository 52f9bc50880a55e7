package pgoutput

import (
	"encoding/binary"
	"iter"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Letters of a column in a TupleData.
const (
	valueNull      byte = 'n'
	valueUnchanged byte = 'u'
	valueText      byte = 't'
	valueBinary    byte = 'b'
)

const lengthSize = 4 // bytes of a value's length

// Tuple is one row image as it came. Raw is the TupleData behind its column count;
// its bounds were checked once, by Decode, and walking it needs no further check. It
// aliases the frame.
type Tuple struct {
	Columns int
	Raw     []byte
	// Unchanged is true when any column is 'u', a TOAST value that was not sent.
	Unchanged bool
}

// Value is one column: Kind is 'n', 'u' or 't', Data is set for 't' only.
type Value struct {
	Kind byte
	Data []byte
}

// Values walks the columns in order.
func (t Tuple) Values() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		raw := t.Raw
		for i := range t.Columns {
			v := Value{Kind: raw[0]}
			raw = raw[1:]
			if v.Kind == valueText {
				n := int(binary.BigEndian.Uint32(raw))
				v.Data = raw[lengthSize : lengthSize+n]
				raw = raw[lengthSize+n:]
			}
			if !yield(i, v) {
				return
			}
		}
	}
}

// tuple reads column count and columns, and leaves the reader behind them.
func (r *reader) tuple() Tuple {
	columns := int(r.uint16())
	if columns > core.ColumnsMax {
		r.fail("a tuple of %d columns, more than a table can have", columns)
	}
	b, at, unchanged := r.rest, 0, false
	for i := 0; i < columns && r.fault == nil; i++ {
		if at >= len(b) {
			r.fail("the frame ends inside a tuple")
			break
		}
		kind := b[at]
		at++
		switch kind {
		case valueText:
			if len(b)-at < lengthSize {
				r.fail("the frame ends inside a value's length")
				break
			}
			size := uint64(binary.BigEndian.Uint32(b[at:]))
			at += lengthSize
			if size > uint64(len(b)-at) {
				r.fail("a value of %d bytes where %d are left", size, len(b)-at)
				break
			}
			at += int(size)
		case valueNull:
		case valueUnchanged:
			unchanged = true
		case valueBinary:
			r.refuse("a column in binary form, which was not asked for")
		default:
			r.fail("unknown column letter 0x%02x", kind)
		}
	}
	if r.fault != nil {
		return Tuple{}
	}
	r.rest = b[at:]
	return Tuple{Columns: columns, Raw: b[:at:at], Unchanged: unchanged}
}
