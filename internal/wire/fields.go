package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message as it stands on the wire: number for varints, body
// for length-delimited ones. Other kinds are never fields of ours and are skipped.
type field struct {
	id     protowire.Number
	kind   protowire.Type
	number uint64
	body   []byte
}

// fields walks a message field by field.
type fields struct{ rest []byte }

func (f *fields) more() bool { return len(f.rest) > 0 }

// next reads one field. It reports false when the bytes are no protobuf message.
func (f *fields) next() (field, bool) {
	id, kind, n := consumeTag(f.rest)
	if n < 0 {
		return field{}, false
	}
	f.rest = f.rest[n:]
	out := field{id: id, kind: kind}
	switch kind {
	case protowire.VarintType:
		out.number, n = protowire.ConsumeVarint(f.rest)
	case protowire.BytesType:
		out.body, n = protowire.ConsumeBytes(f.rest)
	default:
		n = protowire.ConsumeFieldValue(id, kind, f.rest)
	}
	if n < 0 {
		return field{}, false
	}
	f.rest = f.rest[n:]
	return out, true
}

// consumeTag is protowire's, with a short way for the one-byte tags that all our
// fields have.
func consumeTag(b []byte) (protowire.Number, protowire.Type, int) {
	if tag := b[0]; tag < 0x80 && tag >= 0x08 && tag&7 != byte(protowire.EndGroupType) {
		return protowire.Number(tag >> 3), protowire.Type(tag & 7), 1
	}
	id, kind, n := protowire.ConsumeTag(b)
	if n >= 0 && kind == protowire.EndGroupType {
		return 0, 0, -1
	}
	return id, kind, n
}

func (f *field) isNumber(id protowire.Number) bool {
	return f.id == id && f.kind == protowire.VarintType
}

func (f *field) isBytes(id protowire.Number) bool {
	return f.id == id && f.kind == protowire.BytesType
}
