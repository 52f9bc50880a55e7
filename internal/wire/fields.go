package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// fields walks a message field by field. After next the field is in id, kind and
// number (varints) or body (length-delimited). Other kinds are never fields of ours;
// they are stepped over.
type fields struct {
	rest   []byte
	id     protowire.Number
	kind   protowire.Type
	number uint64
	body   []byte
}

func (f *fields) more() bool { return len(f.rest) > 0 }

// next reads one field. It reports false when the bytes are no protobuf message.
func (f *fields) next() bool {
	b := f.rest
	if tag := b[0]; tag-8 < 0x78 { // one byte, field 1 to 15: all of ours
		switch protowire.Type(tag & 7) {
		case protowire.VarintType:
			return f.nextNumber(protowire.Number(tag>>3), b[1:])
		case protowire.BytesType:
			return f.nextBody(protowire.Number(tag>>3), b[1:])
		}
	}
	return f.nextOther()
}

func (f *fields) nextNumber(id protowire.Number, b []byte) bool {
	number, n := uvarint(b)
	if n <= 0 {
		return false
	}
	f.id, f.kind, f.number, f.rest = id, protowire.VarintType, number, b[n:]
	return true
}

func (f *fields) nextBody(id protowire.Number, b []byte) bool {
	size, n := uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return false
	}
	end := n + int(size)
	f.id, f.kind, f.body, f.rest = id, protowire.BytesType, b[n:end:end], b[end:]
	return true
}

// uvarint is protowire.ConsumeVarint with a short way for one byte.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

// nextOther reads a field of any number and kind.
func (f *fields) nextOther() bool {
	id, kind, n := protowire.ConsumeTag(f.rest)
	if n < 0 || kind == protowire.EndGroupType || id > protowire.MaxValidNumber {
		return false
	}
	value := f.rest[n:]
	switch kind {
	case protowire.VarintType:
		return f.nextNumber(id, value)
	case protowire.BytesType:
		return f.nextBody(id, value)
	}
	if n = protowire.ConsumeFieldValue(id, kind, value); n < 0 {
		return false
	}
	f.id, f.kind, f.rest = id, kind, value[n:]
	return true
}

func (f *fields) isNumber(id protowire.Number) bool {
	return f.id == id && f.kind == protowire.VarintType
}

func (f *fields) isBytes(id protowire.Number) bool {
	return f.id == id && f.kind == protowire.BytesType
}
