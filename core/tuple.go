package core

import (
	"encoding/binary"
	"errors"
	"iter"
)

// ValueKind tells what a column of a tuple holds, one ASCII letter.
type ValueKind byte

// The letters. 't', 'n' and 'u' are pgoutput's own
// (https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html, TupleData).
const (
	// ValueText is a value in Postgres' text output form, exactly as printed.
	ValueText ValueKind = 't'
	// ValueNull is SQL NULL.
	ValueNull ValueKind = 'n'
	// ValueUnchanged is a stored TOAST value that the update did not touch and the
	// stream did not carry: keep what is stored.
	ValueUnchanged ValueKind = 'u'
	// ValueAbsent is a column that this image does not have, such as a non-key column
	// of a key-only old row. It is never NULL.
	ValueAbsent ValueKind = 'a'
)

// Value is one column of a tuple. Text is set for ValueText only and aliases the tuple.
type Value struct {
	Kind ValueKind
	Text []byte
}

// Tuple is one row image in packed form: the kind letters of all columns, then each
// column's bytes in order, empty for kinds without bytes. The form is, byte for byte,
// the protobuf encoding of the contract's Row message, so that neither side of the
// wire has to rewrite a row. The zero Tuple is "no image".
//
// A Tuple aliases the memory it was made from. Where it comes from says how long it
// is valid; Clone it to keep it.
type Tuple struct {
	packed  []byte
	columns uint16
	values  uint16 // where the first value's tag stands
	set     bool
}

const (
	tagKinds = 0x0a // field 1, length-delimited
	tagValue = 0x12 // field 2, length-delimited
)

// ErrBadTuple says that packed bytes are not a canonical tuple of the expected width.
var ErrBadTuple = errors.New("packed tuple is malformed")

// IsZero reports whether there is no row image at all.
func (t Tuple) IsZero() bool { return !t.set }

// Len is the number of columns.
func (t Tuple) Len() int { return int(t.columns) }

// Packed is the encoded Row message. It must not be written to.
func (t Tuple) Packed() []byte { return t.packed }

// Kinds is one letter per column. It must not be written to.
func (t Tuple) Kinds() []byte { return t.packed[t.values-t.columns : t.values] }

// Kind is the letter of column i.
func (t Tuple) Kind(i int) ValueKind { return ValueKind(t.Kinds()[i]) }

// Has reports whether any column is of this kind.
func (t Tuple) Has(kind ValueKind) bool {
	for _, k := range t.Kinds() {
		if ValueKind(k) == kind {
			return true
		}
	}
	return false
}

// Values walks the columns in order.
func (t Tuple) Values() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		kinds, rest := t.Kinds(), t.packed[t.values:]
		for i := range kinds {
			size, head := valueSize(rest)
			v := Value{Kind: ValueKind(kinds[i])}
			if v.Kind == ValueText {
				v.Text = rest[head : head+size]
			}
			rest = rest[head+size:]
			if !yield(i, v) {
				return
			}
		}
	}
}

// Value is column i. Walking with Values costs less than asking for each.
func (t Tuple) Value(i int) Value {
	for at, v := range t.Values() {
		if at == i {
			return v
		}
	}
	panic("core: tuple column out of range")
}

// Clone copies the tuple out of the memory it aliases.
func (t Tuple) Clone() Tuple {
	if t.set {
		t.packed = append(make([]byte, 0, len(t.packed)), t.packed...)
	}
	return t
}

// ParseTuple checks that packed is a canonical Row message of any width and returns
// the view on it. It never panics, whatever the bytes are.
func ParseTuple(packed []byte) (Tuple, error) {
	if len(packed) == 0 {
		return Tuple{packed: packed, set: true}, nil
	}
	if packed[0] != tagKinds {
		return Tuple{}, ErrBadTuple
	}
	columns, n := binary.Uvarint(packed[1:])
	if n <= 0 || columns == 0 || columns > ColumnsMax || uint64(len(packed)-1-n) < columns {
		return Tuple{}, ErrBadTuple
	}
	start := 1 + n + int(columns)
	t := Tuple{packed: packed, columns: uint16(columns), values: uint16(start), set: true}
	rest := packed[start:]
	for _, kind := range t.Kinds() {
		size, head := valueSize(rest)
		if head == 0 || !knownKind(ValueKind(kind), size) {
			return Tuple{}, ErrBadTuple
		}
		rest = rest[head+size:]
	}
	if len(rest) != 0 {
		return Tuple{}, ErrBadTuple
	}
	return t, nil
}

// valueSize reads the tag and length that begin rest: the value's size, and the bytes
// before it, 0 when they do not fit.
func valueSize(rest []byte) (size, head int) {
	if len(rest) < 2 || rest[0] != tagValue {
		return 0, 0
	}
	if short := int(rest[1]); short < 0x80 {
		if short > len(rest)-2 {
			return 0, 0
		}
		return short, 2
	}
	long, n := binary.Uvarint(rest[1:])
	if n <= 0 || long > uint64(len(rest)-1-n) {
		return 0, 0
	}
	return int(long), 1 + n
}

func knownKind(kind ValueKind, size int) bool {
	switch kind {
	case ValueText:
		return true
	case ValueNull, ValueUnchanged, ValueAbsent:
		return size == 0
	}
	return false
}
