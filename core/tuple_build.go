package core

import "encoding/binary"

// TupleBuilder packs one tuple at the end of a buffer, column by column. The zero
// value is ready for Begin and may be used again after Tuple.
type TupleBuilder struct {
	buf            []byte
	start, kindsAt int
	next, columns  int
}

// Begin starts a tuple of that many columns after the end of buf. Exactly as many Add
// calls must follow before Tuple.
func (b *TupleBuilder) Begin(buf []byte, columns int) {
	b.start, b.columns, b.next = len(buf), columns, 0
	if columns > 0 {
		buf = append(buf, tagKinds)
		buf = binary.AppendUvarint(buf, uint64(columns))
	}
	b.kindsAt = len(buf)
	for range columns {
		buf = append(buf, byte(ValueAbsent))
	}
	b.buf = buf
}

// Add appends the next column. Text is copied, and ignored for kinds without bytes.
func (b *TupleBuilder) Add(kind ValueKind, text []byte) {
	b.buf[b.kindsAt+b.next] = byte(kind)
	b.next++
	if kind != ValueText {
		b.buf = append(b.buf, tagValue, 0)
		return
	}
	b.buf = append(b.buf, tagValue)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(text)))
	b.buf = append(b.buf, text...)
}

// Tuple returns the packed tuple and the grown buffer, which the tuple aliases.
func (b *TupleBuilder) Tuple() (Tuple, []byte) {
	if b.next != b.columns {
		panic("core: tuple built with a wrong number of columns")
	}
	t := Tuple{
		packed:  b.buf[b.start:len(b.buf):len(b.buf)],
		columns: uint16(b.columns),
		values:  uint16(b.kindsAt - b.start + b.columns),
		set:     true,
	}
	return t, b.buf
}

// PackTuple makes a tuple of its own memory; for tests and slow paths.
func PackTuple(values ...Value) Tuple {
	var b TupleBuilder
	b.Begin(nil, len(values))
	for _, v := range values {
		b.Add(v.Kind, v.Text)
	}
	t, _ := b.Tuple()
	return t
}

// Text and Null are values for PackTuple.
func Text(s string) Value { return Value{Kind: ValueText, Text: []byte(s)} }

// Null is SQL NULL for PackTuple.
func Null() Value { return Value{Kind: ValueNull} }

// PackedTupleMax bounds the packed size of a tuple of these columns and value bytes,
// so that a buffer can be sized before it is filled.
func PackedTupleMax(columns, valueBytes int) int {
	const header, perValue = 1 + 3, 1 + 1 + 5 // tag and width; letter, tag and length
	return header + columns*perValue + valueBytes
}
